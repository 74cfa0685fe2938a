"""Which system calls a submission may make."""

import struct

# What no exercise needs: memory that no watcher sees, other namespaces, other processes' memory, keys, and
# another share of the processors.
DENIED = {
    "x86_64": {
        "arch": 0xC000003E,
        "clone": 56,
        "sockets": (41, 53),
        "numbers": {29, 64, 68, 101, 142, 144, 155, 165, 166, 203, 246, 248, 249, 250, 251, 272, 298}
        | {304, 308, 310, 311, 314, 319, 321, 323},
    },
    "aarch64": {
        "arch": 0xC00000B7,
        "clone": 220,
        "sockets": (198, 199),
        "numbers": {30, 39, 40, 41, 97, 104, 117, 118, 119, 122, 186, 190, 194, 217, 218, 219, 241, 265}
        | {268, 270, 271, 274, 279, 280, 282},
    },
}
EVERYWHERE = {425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 447}  # the same numbers on both
CLONE3, CLONE_NEWUSER, X32 = 435, 0x10000000, 0x40000000
FAMILIES = (1, 2, 10)  # local sockets, IPv4, IPv6: the others reach what no namespace encloses, such as vsock


def seccomp_filter(machine):
    """A filter of system calls as a BPF program; empty bytes where the machine's numbers are not known here.

    Denied calls fail with EPERM; ``clone3``, whose flags a filter cannot see, with ENOSYS, so that libc falls
    back to ``clone``; a socket of another family with EAFNOSUPPORT.
    """
    if machine not in DENIED:
        return b""
    table = DENIED[machine]
    load, equal, at_least, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, deny, absent, foreign, kill = 0x7FFF0000, 0x00050001, 0x00050026, 0x00050061, 0x80000000

    program = [(load, 0, 0, 4), (equal, 1, 0, table["arch"]), (give, 0, 0, kill), (load, 0, 0, 0)]
    program += [(at_least, 0, 1, X32), (give, 0, 0, deny)]
    program += [(equal, 0, 1, CLONE3), (give, 0, 0, absent)]
    for number in sorted(table["numbers"] | EVERYWHERE):
        program += [(equal, 0, 1, number), (give, 0, 0, deny)]
    for number in table["sockets"]:  # the first argument, then the number again for what follows
        program += [(equal, 0, 2 + len(FAMILIES) + 1, number), (load, 0, 0, 16)]
        for left, family in enumerate(reversed(range(len(FAMILIES)))):
            program.append((equal, family + 1, 0, FAMILIES[left]))
        program += [(give, 0, 0, foreign), (load, 0, 0, 0)]
    program += [(equal, 0, 3, table["clone"]), (load, 0, 0, 16), (any_bit, 0, 1, CLONE_NEWUSER)]
    program += [(give, 0, 0, deny), (give, 0, 0, allow)]
    return b"".join(struct.pack("=HBBI", *line) for line in program)
