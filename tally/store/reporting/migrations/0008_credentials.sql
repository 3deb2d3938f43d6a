-- Who may call without a person: one row per secret or certificate identity. Rows are kept for ever, so that an actor of
-- the audit log can be traced to what it was allowed, and by whom.

-- For the foreign key below: a credential names the platform that its cloud belongs to, and no other.
alter table reporting.clouds add constraint clouds_cloud_platform unique (cloud, platform);

create table reporting.credentials (
    id text collate "C" primary key check (id ~ '^[0-9a-f]{16}$'),   -- public: it stands in the token and in the log
    name text collate "C" not null check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'),   -- the actor of the audit log
    role text not null check (role in ('ingest', 'sync', 'operator')),
    kind text not null check (kind in ('token', 'certificate')),
    platform text collate "C",
    cloud text collate "C",
    -- sha256 of 256 random bits. A slow, salted hash protects what people choose; nobody can guess or tabulate these,
    -- and an ingest request would pay for it each time.
    secret_hash bytea check (octet_length(secret_hash) = 32),
    subject text collate "C" check (subject <> ''),   -- of the certificate, exactly as the proxy passes it
    created_at timestamptz not null,
    created_by text not null check (created_by <> ''),
    expires_at timestamptz not null check (expires_at >= created_at),
    revoked_at timestamptz check (revoked_at >= created_at),
    replaces text collate "C" unique references reporting.credentials (id),
    foreign key (cloud, platform) references reporting.clouds (cloud, platform),
    constraint credentials_proof check (
        (kind = 'token') = (secret_hash is not null) and (kind = 'certificate') = (subject is not null)
    ),
    -- Ingest and sync act for one installation; an operator for all.
    constraint credentials_scope check (
        (cloud is null) = (platform is null) and (role = 'operator') = (cloud is null)
    ),
    constraint credentials_replace_another check (replaces <> id)
);
-- One subject is one identity.
create unique index credentials_subject on reporting.credentials (subject) where revoked_at is null;
create index credentials_name on reporting.credentials (name);

-- A credential can only become weaker: end earlier, or be revoked, once.
create function reporting.keep_credential() returns trigger language plpgsql as $$
begin
    if to_jsonb(new) - array['expires_at', 'revoked_at'] is distinct from
            to_jsonb(old) - array['expires_at', 'revoked_at']
        or new.expires_at > old.expires_at
        or (old.revoked_at is not null and new.revoked_at is distinct from old.revoked_at)
    then
        raise exception 'credential % can only end earlier or be revoked', old.id using errcode = 'TA001';
    end if;
    return new;
end $$;
create trigger keep_credential before update on reporting.credentials
    for each row execute function reporting.keep_credential();
create trigger append_only before delete or truncate on reporting.credentials
    for each statement execute function reporting.refuse_change();
