"""Dead letters: listed, shown, replayed after the mending, by anybody at any time (rules 1, 6 and 7)."""

import hashlib
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tally.domain.errors import NotFound
from tally.services.registry import define_type
from tally.services.rejected import (
    Replay,
    Replayed,
    list_letters,
    replay_letter,
    replay_letters,
    show_letter,
)
from tally.store.database import Connection, connected
from tally.store.reporting import rejected as store
from tally.store.reporting.rejected import DeadLetter, LetterFilter
from tests.integration.sending import (
    CLOUD,
    CREATE,
    at,
    count,
    dead_letters,
    door,
    event,
    raw,
    send,
    statuses,
    stored,
    volume,
)

UNKNOWN = "unknown_resource_type"
SHARE = {"lifecycle": {"share.create.end": "create"}}
NOTIFICATION = {
    "event_type": "compute.instance.delete.end",
    "message_id": "m-1",
    "timestamp": "2026-03-17 16:40:50.969260",
    "payload": {"instance_id": "i-1", "tenant_id": "p-1", "state": "deleted", "launched_at": "2026-03-01T00:00:00.0"},
}


def share(number: int, **fields: Any) -> dict[str, Any]:
    """An event of a type that is not registered at first."""
    return event(str(number), "01T00:00:00", "share.create.end", f"s-{number}", resource_type="share", **fields)


def mend(reporting: Connection) -> None:
    """Register the type of shares."""
    define_type(reporting, "openstack", "share", SHARE, "test")


def ids(reporting: Connection, **which: Any) -> list[int]:
    """The numbers of the letters of a filter, as listed."""
    return [row.id for row in list_letters(reporting, LetterFilter(**which))]


def only(reporting: Connection) -> int:
    """The number of the only letter."""
    (number,) = ids(reporting)
    return number


def replay(reporting: Connection, **options: Any) -> Replay:
    """Replay the letters of one reason."""
    which = LetterFilter(reason=options.pop("reason", UNKNOWN), cloud=options.pop("cloud", None))
    return replay_letters(reporting, door(reporting), which, "tester", **options)


def keep(reporting: Connection, content: bytes, **fields: Any) -> None:
    """Keep bytes as an earlier version of Tally did that could not read them."""
    empty = {"cloud": "", "event_id": "", "platform": "", "resource_type": "", "format": "tally"}
    letter = {"content_hash": hashlib.sha256(content).digest(), "reason": "invalid_event", "detail": "unreadable"}
    store.add(reporting, [DeadLetter(raw=content, **(empty | letter | fields))])


# Listing and showing.


def test_letters_are_listed_from_the_newest_on_page_by_page(reporting: Connection) -> None:
    """Rule 7: pages follow each other without gap or overlap, also while letters come."""
    send(reporting, *(share(number) for number in range(5)))
    first = list_letters(reporting, LetterFilter(), limit=2)
    send(reporting, share(5))
    rest = list_letters(reporting, LetterFilter(), after=first[-1].id)
    assert [row.event_id for row in (*first, *rest)] == ["4", "3", "2", "1", "0"]


def test_letters_are_found_by_what_is_known_of_them(reporting: Connection) -> None:
    """Rule 7: reason, cloud, platform, type, when they came, whether they were replayed."""
    for sent in (b"{", share(1), share(2, cloud="other"), volume("3", "01T00:00:00", CREATE, -1)):
        send(reporting, sent)
    broken, first, second, third = reversed(ids(reporting))
    assert ids(reporting, reason=UNKNOWN) == [second, first]
    assert ids(reporting, cloud=CLOUD) == [third, first]
    assert ids(reporting, cloud=CLOUD, reason="invalid_size") == [third]
    assert ids(reporting, platform="openstack", resource_type="share") == [second, first]
    assert ids(reporting, cloud="") == [broken]
    reporting.execute("update reporting.rejected_events set received_at = %s where id = %s", [at("02T00:00:00"), first])
    assert ids(reporting, received_from=at("02T00:00:00"), received_to=at("02T00:00:01")) == [first]
    assert ids(reporting, received_to=at("02T00:00:00")) == []
    mend(reporting)
    replay_letter(reporting, door(reporting), first, "tester")
    assert ids(reporting, replayed=True) == [first]
    assert ids(reporting, replayed=False) == [third, second, broken]


def test_a_letter_is_shown_as_it_came(reporting: Connection) -> None:
    """Rule 7: byte for byte: as text where it is text, in base64 where it is not."""
    send(reporting, share(1))
    send(reporting, b"\xff\x00")
    binary, text = (show_letter(reporting, number) for number in ids(reporting))
    assert (text.encoding, json.loads(text.content)) == ("text", share(1))
    assert (binary.encoding, binary.content, binary.row.size_bytes) == ("base64", "/wA=", 2)
    with pytest.raises(NotFound, match="999"):
        show_letter(reporting, 999)


# Replaying.


def test_rule_6_letters_are_taken_after_the_registry_is_mended(reporting: Connection) -> None:
    """Rule 6: all of a reason at once; what was taken is not replayed again, and other reasons are left alone."""
    send(reporting, *(share(number) for number in range(3)), b"{")
    assert replay(reporting).results == {"rejected": 3}
    mend(reporting)
    assert replay(reporting).results == {"accepted": 3}
    assert replay(reporting).results == {}
    assert stored(reporting) == ["0", "1", "2"]
    assert [row.reason for row in list_letters(reporting, LetterFilter(replayed=False))] == ["invalid_json"]
    audited = reporting.execute(
        "select actor, subject, detail from reporting.audit_log where action = 'rejected_events.replay' order by id"
    ).fetchall()
    assert audited == [
        ("tester", UNKNOWN, {"cloud": None, "rejected": 3}),
        ("tester", UNKNOWN, {"cloud": None, "accepted": 3}),
    ]


def test_rule_7_a_letter_that_is_rejected_again_stays_one_letter(reporting: Connection) -> None:
    """Rule 7: it tells the latest reason and keeps its number and its bytes."""
    send(reporting, share(1))
    number = only(reporting)
    define_type(reporting, "openstack", "share", {"lifecycle": {"other": "create"}}, "test")
    assert replay(reporting).reasons == {"unknown_event_type": 1}
    row = show_letter(reporting, number).row
    assert (only(reporting), row.reason, row.replayed_at) == (number, "unknown_event_type", None)


def test_one_cloud_can_be_replayed_alone(reporting: Connection) -> None:
    """The letters of other clouds are left as they are."""
    send(reporting, share(1), share(2, cloud="other"))
    mend(reporting)
    assert replay(reporting, cloud="other").results == {"accepted": 1}
    assert stored(reporting) == ["2"]


def test_a_call_is_bounded_and_says_how_to_go_on(reporting: Connection) -> None:
    """A call replays so many letters; those that are rejected again do not stand in the way of the others."""
    send(reporting, *(share(number, platform="nowhere" if number < 4 else "openstack") for number in range(7)))
    mend(reporting)
    first = replay(reporting, limit=3)
    assert (first.results, first.remaining) == ({"rejected": 3}, 4)
    assert first.next_after is not None
    second = replay(reporting, limit=3, after=first.next_after)
    assert (second.results, second.remaining) == ({"rejected": 1, "accepted": 2}, 1)
    assert second.next_after is not None
    third = replay(reporting, limit=3, after=second.next_after)
    assert (third.results, third.remaining, third.next_after) == ({"accepted": 1}, 0, None)


def test_rule_1_a_conflict_stays_a_conflict(reporting: Connection) -> None:
    """Rule 1: a replay cannot store the same identity with other content."""
    send(reporting, volume("X", "01T00:00:00", CREATE, 1), volume("X", "01T00:00:00", CREATE, 2))
    assert replay(reporting, reason="event_id_conflict").reasons == {"event_id_conflict": 1}
    number = only(reporting)
    assert replay_letter(reporting, door(reporting), number, "tester").reason == "event_id_conflict"
    assert dead_letters(reporting) == [(CLOUD, "X", "event_id_conflict")]


def test_a_letter_whose_event_came_again_is_a_duplicate(reporting: Connection) -> None:
    """Rule 1: the sender was faster; the letter is done with."""
    send(reporting, share(1))
    mend(reporting)
    send(reporting, share(1))
    assert replay(reporting).results == {"deduplicated": 1}
    assert ids(reporting, replayed=False) == []


def test_one_letter_can_be_replayed_any_number_of_times(reporting: Connection) -> None:
    """The second time it is a duplicate, and the first time stays noted."""
    send(reporting, share(1))
    number = only(reporting)
    mend(reporting)
    assert replay_letter(reporting, door(reporting), number, "tester") == Replayed("accepted", "1")
    noted = show_letter(reporting, number).row.replayed_at
    assert replay_letter(reporting, door(reporting), number, "tester") == Replayed("deduplicated", "1")
    assert show_letter(reporting, number).row.replayed_at == noted is not None
    with pytest.raises(NotFound, match="no dead letter"):
        replay_letter(reporting, door(reporting), number + 1, "tester")
    with pytest.raises(NotFound, match="no dead letter"):
        replay_letter(reporting, door(reporting), number - 1, "tester")


# Formats.


def test_what_a_mapper_could_not_read_goes_through_the_same_mapper(reporting: Connection) -> None:
    """A notification that this version of the mapper can read is taken, for the cloud that it came from."""
    keep(reporting, json.dumps(NOTIFICATION).encode(), format="nova", cloud=CLOUD, platform="openstack")
    assert replay(reporting, reason="invalid_event").results == {"accepted": 1}
    assert stored(reporting) == ["m-1"]


def test_what_changes_nothing_that_is_billed_is_done_with(reporting: Connection) -> None:
    """A notification that the mapper ignores by now is no open letter any more, and no event."""
    ignored = NOTIFICATION | {"event_type": "compute.instance.snapshot.end"}
    keep(reporting, json.dumps(ignored).encode(), format="nova", cloud=CLOUD)
    keep(reporting, json.dumps(NOTIFICATION).encode(), format="nova", cloud=CLOUD)
    assert replay(reporting, reason="invalid_event").results == {"ignored": 1, "accepted": 1}
    assert (ids(reporting, replayed=False), stored(reporting)) == ([], ["m-1"])


def test_a_format_that_nobody_knows_is_kept(reporting: Connection) -> None:
    """After a step back to an older version: nothing is dropped, and the letter says why."""
    keep(reporting, b"{}", format="future")
    assert replay(reporting, reason="invalid_event").reasons == {"unknown_format": 1}
    row = show_letter(reporting, only(reporting)).row
    assert (row.format, row.reason) == ("future", "unknown_format")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b'{"cloud": "elsewhere"}'])
def test_what_is_still_no_event_stays_one_letter(reporting: Connection, content: bytes) -> None:
    """Also if it was kept under the cloud of its sender, which it does not name itself."""
    keep(reporting, content, cloud="os-test", platform="openstack")
    assert replay(reporting, reason="invalid_event").results == {"rejected": 1}
    row = show_letter(reporting, only(reporting)).row
    assert (row.cloud, row.detail == "unreadable") == ("os-test", False)


def test_what_reads_as_an_event_by_now_is_kept_under_its_name(reporting: Connection) -> None:
    """A letter that could not be read, and now is an event of an unknown type: one letter, found by its identity."""
    keep(reporting, raw(share(1)))
    number = only(reporting)
    assert replay(reporting, reason="invalid_event").reasons == {UNKNOWN: 1}
    row = show_letter(reporting, number).row
    assert (only(reporting), row.cloud, row.event_id, row.resource_type) == (number, CLOUD, "1", "share")
    assert statuses(send(reporting, share(1))) == [UNKNOWN]
    assert only(reporting) == number


def test_two_letters_of_one_event_become_one_open_letter(reporting: Connection) -> None:
    """The same event in two spellings, and a third time as the event that it is: the last one tells of it."""
    keep(reporting, raw(share(1)))
    keep(reporting, b" " + raw(share(1)))
    send(reporting, share(1))
    last = ids(reporting)[0]
    assert replay(reporting, reason="invalid_event").results == {"rejected": 2}
    assert ids(reporting, replayed=False) == [last]
    mend(reporting)
    assert replay(reporting).results == {"accepted": 1}


def test_a_letter_is_never_taken_for_another_cloud(reporting: Connection) -> None:
    """A sender that is bound to a cloud cannot have an operator replay what it was not allowed to send."""
    keep(reporting, raw(volume("1", "01T00:00:00", CREATE, 1)), cloud="os-test", platform="openstack")
    assert replay(reporting, reason="invalid_event").reasons == {"forbidden": 1}
    assert stored(reporting) == []
    assert dead_letters(reporting) == [("os-test", "", "forbidden")]


# Several at once.


def test_replays_at_the_same_time_store_each_event_once(reporting: Connection, reporting_url: str) -> None:
    """Rule 22: four sessions replay the same letters while a sender sends them again: each is stored once."""
    sent = [share(number) for number in range(1500)]
    send(reporting, *sent)
    keep(reporting, raw(share(3)))
    keep(reporting, raw(share(2000)))
    mend(reporting)
    results: list[dict[str, int]] = []

    def again(session: Connection) -> None:
        results.extend(dict(replay(session, reason=reason).results) for reason in (UNKNOWN, "invalid_event"))

    together(reporting_url, [again] * 4 + [lambda session: results.append({"sent": len(send(session, *sent))})])
    assert stored(reporting) == sorted(str(number) for number in [*range(1500), 2000])
    assert ids(reporting, replayed=False) == []
    assert sum(result.get("accepted", 0) for result in results) <= 1501
    assert not any("rejected" in result for result in results)
    assert count(reporting, "rejected_events") == 1502


def test_replays_at_the_same_time_keep_one_letter_each(reporting: Connection, reporting_url: str) -> None:
    """Rule 22: what is rejected again by all of them is there once."""
    for number in range(200):
        keep(reporting, raw(share(number)))
    together(reporting_url, [lambda session: replay(session, reason="invalid_event")] * 4)
    assert sorted(dead_letters(reporting)) == sorted((CLOUD, str(number), UNKNOWN) for number in range(200))


def together(url: str, tasks: list[Callable[[Connection], object]]) -> None:
    """Run tasks at once, each in a session of its own; the first error of any is raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[Connection], object]) -> None:
        try:
            with connected(url) as session:
                start.wait()
                task(session)
        except BaseException as error:  # noqa: BLE001 - raised by the caller
            errors.append(error)

    threads = [threading.Thread(target=run, args=[task]) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
