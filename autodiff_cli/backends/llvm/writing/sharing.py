"""The module by which threads share a job: whoever has one puts tasks into the mailboxes of others that wait there.

A mailbox is one word: `AWAY` if nobody looks into it, `READY` if somebody does, `BUSY` while a task is done, else the
address of a task. All else follows from who may change it: to a task, and back from it, whoever has the job; from a
task to `BUSY` and to `READY`, the one who waits. A task that nobody has taken by the end is taken back, so a job never
waits for a thread that has not begun.
"""

from __future__ import annotations

from autodiff_cli.backends.llvm.target import Processor

# The fields of a task, each of 8 bytes: what is called, with which two addresses; how often whoever has done it looks
# for another one; then for `share` alone: whether it is done, in which mailbox it lies, and what was there.
TASK = ("run", "job", "memory", "patience", "done", "box", "before")
BOX = 64  # bytes from one mailbox to the next: a line of the cache each

AWAY, _READY, _BUSY = range(3)
_LOOKS = 2000  # at a task under way before its end is waited for in naps
_NAP, _NAPS = 50, 4  # microseconds; how often one waits so long for a task
# One is at once a hint to the processor that somebody waits, and the unit of patience.
_PAUSES = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32 1)"}


def sharing_written(target: Processor, *, naps: bool) -> str:
    """The text of the module. It exports `share(tasks, count, boxes, many)`, which does the first of so many tasks,
    and has the others done by those who wait at so many mailboxes, as far as they are there: it comes back when all
    that was taken is done; and `serve(box, patience)`, which does what comes into a mailbox, until nothing has come
    for so many looks and a few naps (in which one who was to post something, on the same core, may do so); and
    `look(box, looks)`, which takes as long as so many.

    Args:
        naps: whether C's library has `usleep`.
    """
    pause = _PAUSES.get(target.triple.split("-")[0])
    field = {name: 8 * k for k, name in enumerate(TASK)}
    declared = [f"declare void {pause.replace('i32 1', 'i32')}"] if pause else []
    declared += ["declare i32 @usleep(i32)"] if naps else []
    wait = f"call void {pause}" if pause else ""
    sleep = f"call i32 @usleep(i32 {_NAP})" if naps else wait

    def run(task: str) -> str:
        return f"""
  %run.place = getelementptr i8, ptr {task}, i64 {field["run"]}
  %run = load ptr, ptr %run.place
  %job.place = getelementptr i8, ptr {task}, i64 {field["job"]}
  %job = load ptr, ptr %job.place
  %memory.place = getelementptr i8, ptr {task}, i64 {field["memory"]}
  %memory = load ptr, ptr %memory.place
  call void %run(ptr %job, ptr %memory)"""

    return f"""target triple = "{target.triple}"
{chr(10).join(declared)}

define void @serve(ptr %box, i64 %patience) {{
entry:
  %arrived = cmpxchg ptr %box, i64 {AWAY}, i64 {_READY} seq_cst seq_cst
  %all = add i64 %patience, {_NAPS}
  br label %look
look:
  %left = phi i64 [ %all, %entry ], [ %less, %wait ], [ %less, %nap ], [ %left, %take ], [ 0, %leave ], [ %again, %do ]
  %word = load atomic i64, ptr %box acquire, align 8
  %is.task = icmp ugt i64 %word, {_BUSY}
  br i1 %is.task, label %take, label %idle
idle:
  %less = sub i64 %left, 1
  %is.over = icmp eq i64 %left, 0
  br i1 %is.over, label %leave, label %stay
stay:
  %is.tired = icmp ule i64 %left, {_NAPS}
  br i1 %is.tired, label %nap, label %wait
wait:
  {wait}
  br label %look
nap:
  {sleep}
  br label %look
leave:
  %left.box = cmpxchg ptr %box, i64 {_READY}, i64 {AWAY} seq_cst seq_cst
  %was = extractvalue {{ i64, i1 }} %left.box, 0
  %has.more = icmp ugt i64 %was, {_READY}
  br i1 %has.more, label %look, label %end
take:
  %taken = cmpxchg ptr %box, i64 %word, i64 {_BUSY} seq_cst seq_cst
  %is.taken = extractvalue {{ i64, i1 }} %taken, 1
  br i1 %is.taken, label %do, label %look
do:
  %task = inttoptr i64 %word to ptr{run("%task")}
  %patience.place = getelementptr i8, ptr %task, i64 {field["patience"]}
  %patience.again = load i64, ptr %patience.place
  %again = add i64 %patience.again, {_NAPS}
  store atomic i64 {_READY}, ptr %box release, align 8
  %done.place = getelementptr i8, ptr %task, i64 {field["done"]}
  store atomic i64 1, ptr %done.place release, align 8
  br label %look
end:
  ret void
}}

define void @look(ptr %box, i64 %looks) {{
entry:
  br label %again
again:
  %number = phi i64 [ 0, %entry ], [ %next, %again ]
  %word = load atomic i64, ptr %box acquire, align 8
  {wait}
  %next = add i64 %number, 1
  %is.more = icmp ult i64 %next, %looks
  br i1 %is.more, label %again, label %end
end:
  ret void
}}

define void @share(ptr %tasks, i64 %count, ptr %boxes, i64 %many) {{
entry:
  br label %post
post:
  %number = phi i64 [ 0, %entry ], [ %next.number, %posted ]
  %given = phi i64 [ 1, %entry ], [ %more, %posted ]
  %has.box = icmp ult i64 %number, %many
  %has.task = icmp ult i64 %given, %count
  %goes.on = and i1 %has.box, %has.task
  br i1 %goes.on, label %try, label %work
try:
  %next.number = add i64 %number, 1
  %box.start = mul i64 %number, {BOX}
  %box = getelementptr i8, ptr %boxes, i64 %box.start
  %before = load atomic i64, ptr %box monotonic, align 8
  %is.free = icmp ule i64 %before, {_READY}
  br i1 %is.free, label %put, label %posted
put:
  %put.start = mul i64 %given, {8 * len(TASK)}
  %put.task = getelementptr i8, ptr %tasks, i64 %put.start
  %done.put = getelementptr i8, ptr %put.task, i64 {field["done"]}
  store atomic i64 0, ptr %done.put monotonic, align 8
  %box.put = getelementptr i8, ptr %put.task, i64 {field["box"]}
  store ptr %box, ptr %box.put
  %before.put = getelementptr i8, ptr %put.task, i64 {field["before"]}
  store i64 %before, ptr %before.put
  %address = ptrtoint ptr %put.task to i64
  %try.put = cmpxchg ptr %box, i64 %before, i64 %address seq_cst seq_cst
  %is.put = extractvalue {{ i64, i1 }} %try.put, 1
  %one = zext i1 %is.put to i64
  %given.now = add i64 %given, %one
  br label %posted
posted:
  %more = phi i64 [ %given, %try ], [ %given.now, %put ]
  br label %post
work:{run("%tasks")}
  br label %collect
collect:
  %at = phi i64 [ 1, %work ], [ %at.next, %collected ]
  %is.left = icmp ult i64 %at, %given
  br i1 %is.left, label %recall, label %end
recall:
  %at.start = mul i64 %at, {8 * len(TASK)}
  %task = getelementptr i8, ptr %tasks, i64 %at.start
  %box.place = getelementptr i8, ptr %task, i64 {field["box"]}
  %own.box = load ptr, ptr %box.place
  %before.place = getelementptr i8, ptr %task, i64 {field["before"]}
  %was = load i64, ptr %before.place
  %own = ptrtoint ptr %task to i64
  %done.place = getelementptr i8, ptr %task, i64 {field["done"]}
  %recalled = cmpxchg ptr %own.box, i64 %own, i64 %was seq_cst seq_cst
  %is.recalled = extractvalue {{ i64, i1 }} %recalled, 1
  br i1 %is.recalled, label %collected, label %watch
watch:
  %looks = phi i64 [ 0, %recall ], [ %looks.next, %soon ], [ %looks.next, %nap ]
  %done = load atomic i64, ptr %done.place acquire, align 8
  %is.done = icmp ne i64 %done, 0
  br i1 %is.done, label %collected, label %on
on:
  %looks.next = add i64 %looks, 1
  %is.soon = icmp ult i64 %looks, {_LOOKS}
  br i1 %is.soon, label %soon, label %nap
soon:
  {wait}
  br label %watch
nap:
  {sleep}
  br label %watch
collected:
  %at.next = add i64 %at, 1
  br label %collect
end:
  ret void
}}
"""
