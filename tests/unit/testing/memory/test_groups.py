"""Every partition has one owner at a time, and always gets one in the end."""

from hypothesis import given
from hypothesis import strategies as st

from driftline.testing.memory.groups import Group, Member

actions = st.lists(st.tuples(st.sampled_from(["join", "leave", "expire", "poll"]), st.integers(0, 3)), max_size=40)


class _Told:
    """What a member owns, by what it was told."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.owned: set[int] = set()

    def poll(self, group: Group) -> None:
        taken = group.revoked(self.member)
        if taken is not None:
            assert set(taken[0]) <= self.owned
            self.owned -= set(taken[0])
            return
        given_now = set(group.assigned(self.member))
        assert not given_now & self.owned
        self.owned |= given_now


@given(st.integers(1, 6), actions)
def test_every_partition_has_one_owner_whatever_joins_leaves_and_expires(
    partitions: int, steps: list[tuple[str, int]]
) -> None:
    group = Group(partitions)
    members: dict[int, _Told] = {}
    for action, number in steps:
        if action == "join" and number not in members:
            members[number] = _Told(group.join(f"m{number}"))
        elif action == "leave" and number in members:
            group.leave(members.pop(number).member)
        elif action == "expire":
            group.expire(f"m{number}")
        elif number in members:
            members[number].poll(group)
        owners = [partition for told in members.values() for partition in told.member.owned]
        assert len(owners) == len(set(owners))
    for _ in range(3 * len(members) + 3):
        for told in members.values():
            told.poll(group)
    owned = sorted(partition for told in members.values() for partition in told.owned)
    assert owned == (list(range(partitions)) if members else [])


def test_an_expired_member_gets_its_loss_and_joins_again() -> None:
    group = Group(2)
    first, second = group.join("a"), group.join("b")
    assert (group.assigned(first), group.assigned(second)) == ((0,), (1,))
    group.expire("a")
    assert group.assigned(second) == (0,)
    assert group.revoked(first) == ((0,), True)
    assert group.assigned(first) == ()
    assert group.revoked(second) == ((0,), False)
    assert group.assigned(first) == (0,)
