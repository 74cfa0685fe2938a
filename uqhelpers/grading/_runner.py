"""Runs a submission's cells and answers questions about them, inside the sandbox.

One request a line comes in on standard input, one answer a line goes out on
standard output, both JSON. The submission shares this process and may change
anything in it: the trusted side takes every answer for the submission's own.
"""

import ctypes
import json
import os
import random
import signal
import sys

HOME = "/tmp/home"


class OutOfTime(BaseException):
    """Raised in the learner's code; not an ``Exception``, so that ``except Exception`` lets it pass."""


def out_of_time(signum, frame):
    raise OutOfTime


def private_streams():
    """The two ends of the conversation; the submission's own in- and output goes nowhere."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    return requests, answers


def start_shell():
    """An IPython shell without history, so that magics and ``get_ipython`` work as in a notebook."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryAccessor.enabled = False
    shell = InteractiveShell.instance(config=config, user_ns={"__name__": "__main__"})
    sys.modules["__main__"].__dict__.pop("__file__", None)
    return shell


def reseed(seed):
    """Fix the global generators, so that an answer does not depend on the run."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    if "torch" in sys.modules and hasattr(sys.modules["torch"], "manual_seed"):
        sys.modules["torch"].manual_seed(seed)


def run_cell(shell, request):
    result = shell.run_cell(request["source"], store_history=False, silent=False)
    error = result.error_before_exec or result.error_in_exec
    if isinstance(error, OutOfTime):
        return {"ok": False, "kind": "time"}
    if error is not None:
        return {"ok": False, "kind": "raised", "error": f"{type(error).__name__}: {error}"[:300]}
    return {"ok": True}


def ask(shell, request):
    """Call the learner's function, or read a variable."""
    from uqhelpers.grading._wire import decode, encode, plain

    name = request["name"]
    answer = shell.user_ns.get(name, ...)
    if answer is ...:
        return {"ok": False, "kind": "missing"}
    if "args" in request:
        if not callable(answer):
            return {"ok": False, "kind": "not a function"}
        answer = answer(*[decode(arg, build=True) for arg in request["args"]])
    if answer is ... or answer is None:
        return {"ok": False, "kind": "nothing"}
    try:
        return {"ok": True, "value": encode(plain(answer))}
    except TypeError as error:
        return {"ok": False, "kind": "unreadable", "error": str(error)[:300]}


def respond(shell, request):
    reseed(request["seed"])
    signal.setitimer(signal.ITIMER_REAL, request["seconds"])
    try:
        return run_cell(shell, request) if "source" in request else ask(shell, request)
    except OutOfTime:
        return {"ok": False, "kind": "time"}
    except BaseException as error:  # SystemExit and KeyboardInterrupt too: the next question must be answered
        if str(error).startswith("write this one yourself"):
            return {"ok": False, "kind": "forbidden", "error": str(error)[:300]}
        return {"ok": False, "kind": "raised", "error": f"{type(error).__name__}: {error}"[:300]}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def guard():
    """Go on as a child. The parent is the sandbox's first process, with which all others end.

    It only waits. It ends with whoever started the sandbox, and nobody in here can look into its memory, so
    that nobody can talk it out of that.
    """
    control = ctypes.CDLL(None, use_errno=True).prctl
    kill_with_parent, dumpable = 1, 4
    control(kill_with_parent, signal.SIGKILL, 0, 0, 0)
    control(dumpable, 0, 0, 0, 0)
    child = os.fork()
    if child == 0:
        control(dumpable, 1, 0, 0, 0)
        return
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    while os.wait()[0] != child:
        pass
    os._exit(0)


def main():
    guard()
    requests, answers = private_streams()
    os.makedirs(HOME, exist_ok=True)
    os.chdir(HOME)
    sys.path[:0] = [HOME, "/sandbox/lib"]
    signal.signal(signal.SIGALRM, out_of_time)
    pid = os.getpid()
    shell = start_shell()
    answers.write(b'{"ready": true}\n')
    answers.flush()
    for line in requests:
        request = json.loads(line)
        answer = respond(shell, request)
        if os.getpid() != pid:  # a child that the submission forked and let run on
            os._exit(0)
        answers.write(json.dumps({"id": request["id"], **answer}).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
