import assert from 'node:assert/strict'
import { test } from 'node:test'
import { jobLine, runCode, startCells, startDriver } from './driver.fixture.ts'

test('a top-level return leaves loops, with blocks and try blocks as in a function', async (t) => {
  const code = `
import contextlib
@contextlib.contextmanager
def managed():
    print('in')
    yield
    print('out')
for i in range(3):
    with managed():
        try:
            while True:
                if i == 1:
                    return i
                break
        except BaseException as error:
            print('caught', error)
        else:
            print('else', i)
        finally:
            print('finally', i)
else:
    print('no break')
print('never')
`
  const { stdout, said, stderr } = await runCode(t, 'python', code)
  assert.equal(stdout, 'in\nelse 0\nfinally 0\nout\nin\nfinally 1\nout\n')
  assert.deepEqual({ said, stderr }, { said: [{ value: 1 }], stderr: '' })
})

test('a database is committed, not rolled back, when a return leaves its with block', async (t) => {
  const code = `
import sqlite3
base = sqlite3.connect('x.db')
base.execute('create table t (n)')
def count():
    return sqlite3.connect('x.db').execute('select count(*) from t').fetchone()[0]
import atexit
atexit.register(lambda: print(count()))
with base:
    base.execute('insert into t values (1)')
    return 'done'
`
  const { stdout, said } = await runCode(t, 'python', code)
  assert.deepEqual({ stdout, said }, { stdout: '1\n', said: [{ value: 'done' }] })
})

test('a return in finally overrides an earlier one, and an error during unwinding replaces the return', async (t) => {
  const { said } = await runCode(t, 'python', 'try:\n  return 1\nfinally:\n  return 2')
  assert.deepEqual(said, [{ value: 2 }])
  const replaced = `
class Exit:
    def __enter__(self): pass
    def __exit__(self, *error): raise ValueError
for n in [1, 2]:
    try:
        with Exit():
            return n
    except ValueError:
        print('caught', n)
print('end')
`
  const end = await runCode(t, 'python', replaced)
  assert.deepEqual(end, { exit: 0, stdout: 'caught 1\ncaught 2\nend\n', stderr: '', said: [] })
})

test('await, async for and async with work at the top level, and pending tasks are cancelled', async (t) => {
  const code = `"""The docstring."""
from __future__ import annotations
import asyncio, contextlib
x: Undefined = 1
async def numbers():
    for n in range(5):
        await asyncio.sleep(0)
        yield n
@contextlib.asynccontextmanager
async def managed():
    yield 'm'
    print('left')
async def forever():
    try:
        await asyncio.sleep(99)
    finally:
        print('cancelled')
task = asyncio.create_task(forever())
async with managed() as name:
    async for n in numbers():
        if n == 3:
            return [name, n, __doc__, [m async for m in numbers()], __annotations__]
`
  const { stdout, said, stderr } = await runCode(t, 'python', code)
  assert.equal(stderr, '')
  assert.equal(stdout, 'left\ncancelled\n')
  assert.deepEqual(said, [{ value: ['m', 3, 'The docstring.', [0, 1, 2, 3, 4], { x: 'Undefined' }] }])
})

test('syntax errors are printed as Python prints them, with the line numbers of the program', async (t) => {
  const cases = [
    ['ok = 1\nx = = 2', /^ {2}File "main\.py", line 2\n {4}x = = 2\n {8}\^\nSyntaxError: invalid syntax\n$/],
    ['class A:\n    return 5', /line 2\n {4}return 5\n[\s\S]*SyntaxError: 'return' outside function\n$/],
    ['return 5\nbreak', /line 2\n {4}break\n[\s\S]*SyntaxError: 'break' outside loop\n$/],
    ['if 1:\n  continue\nreturn', /line 2\n {4}continue\n[\s\S]*SyntaxError: 'continue' not properly in loop\n$/],
    ['yield 1', /SyntaxError: 'yield' outside function\n$/],
  ] as const
  for (const [code, shown] of cases) {
    const { exit, stderr } = await runCode(t, 'python', code, { files: { 'main.py': 'another = file\n'.repeat(3) } })
    assert.equal(exit, 1)
    assert.match(stderr, shown)
  }
})

test('a traceback contains only lines of the program, in coroutines too', async (t) => {
  const plain = await runCode(t, 'python', 'def f():\n    return 1 / 0\nf()')
  assert.match(
    plain.stderr,
    /^Traceback \(most recent call last\):\n {2}File "main\.py", line 3, in <module>\n {4}f\(\)\n {2}File "main\.py", line 2, in f\n {4}return 1 \/ 0\n( +[~^]+\n)?ZeroDivisionError: division by zero\n$/,
  )
  const awaited = await runCode(t, 'python', 'async def f():\n    raise ValueError("deep")\nawait f()')
  assert.match(awaited.stderr, /^Traceback \(most recent call last\):\n {2}File "main\.py", line 3, in <module>\n/)
  assert.doesNotMatch(awaited.stderr, /asyncio|native\/drivers/)
  const chained = await runCode(t, 'python', 'try:\n  {}["a"]\nexcept KeyError as e:\n  raise ValueError("b") from e')
  assert.match(chained.stderr, /KeyError: 'a'[\s\S]*direct cause[\s\S]*ValueError: b/)
  assert.doesNotMatch(chained.stderr, /native\/drivers/)
})

test('every kind of exit gives the same exit code and output as plain Python', async (t) => {
  const cases = [
    ['import sys; sys.exit()', 0, ''],
    ['import sys; sys.exit("bye")', 1, 'bye\n'],
    ['import sys; sys.exit((1, 2))', 1, '(1, 2)\n'],
    ['import sys; sys.exit(-1)', 255, ''],
    ['import sys; sys.exit(2**70)', 255, ''],
    ['import sys; sys.exit(True)', 1, ''],
    ['raise SystemExit(130)', 130, ''],
    ['async def f():\n    raise SystemExit(4)\nawait f()', 4, ''],
    ['import os; os._exit(9)', 9, ''],
  ] as const
  for (const [code, exit, stderr] of cases) {
    const end = await runCode(t, 'python', code)
    assert.deepEqual({ exit: end.exit, stderr: end.stderr }, { exit, stderr }, code)
  }
  const interrupted = await runCode(t, 'python', 'raise KeyboardInterrupt')
  assert.equal(interrupted.exit, 'SIGINT')
  assert.match(interrupted.stderr, /KeyboardInterrupt\n$/)
})

test('at exit threads are joined, exit handlers run, objects are finalized and files are flushed, in that order', async (t) => {
  const code = `
import atexit, sys, threading, time
out = open('out.txt', 'w')
out.write('buffered')
class Thing:
    def __del__(self):
        print('finalized')
thing = Thing()
thing.itself = thing
atexit.register(lambda: print('handler'))
threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()
threading.Thread(target=time.sleep, args=[60], daemon=True)
sys.stdout.write('no newline;')
`
  const { exit, stdout, stderr } = await runCode(t, 'python', code)
  assert.deepEqual([exit, stdout, stderr], [0, 'no newline;thread\nhandler\nfinalized\n', ''])
  const left = 'import helper\nhelper.keep()'
  const helper = 'import os\nfiles = []\ndef keep():\n  files.append(open(os.dup(1), "w"))\n  files[0].write("kept")\n'
  assert.equal((await runCode(t, 'python', left, { files: { 'helper.py': helper } })).stdout, 'kept')
})

test('a daemon thread does not delay the exit and keeps its globals until then', async (t) => {
  const code = `
import threading, time
def spin():
    while True:
        time.sleep(0.001)
class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(0.1)
slow = Slow()
threading.Thread(target=spin, daemon=True).start()
print('end')
`
  assert.deepEqual(await runCode(t, 'python', code), { exit: 0, stdout: 'end\n', stderr: '', said: [] })
})

test('closed or broken streams give the same end as plain Python', async (t) => {
  assert.equal((await runCode(t, 'python', 'import sys\nsys.stdout.close()')).exit, 0)
  assert.equal((await runCode(t, 'python', 'import os, sys\nsys.stdout.write("x")\nos.close(1)')).exit, 120)
  assert.equal((await runCode(t, 'python', 'import sys\nsys.stdout = None\nsys.stderr = None\nsys.exit("x")')).exit, 1)
  const closed = await runCode(t, 'python', 'import os\nos.close(3)\nreturn 5')
  assert.deepEqual(closed, { exit: 0, stdout: '', stderr: '', said: [] })
})

test('output lines are flushed while the program runs', async (t) => {
  const { child, channel } = startDriver(t, 'python')
  channel.write(jobLine('print("now")\nimport time\ntime.sleep(60)'))
  // `text` in the fixture reads the same stream; both hear every piece.
  const piece = await new Promise((resolve) => child.stdout?.once('data', resolve))
  assert.equal(String(piece), 'now\n')
})

test('__main__ is the program: its classes work with pickle, repr and multiprocessing', async (t) => {
  const code = `
import dataclasses, inspect, multiprocessing, pickle, __main__
@dataclasses.dataclass
class Point:
    x: int
    def double(self):
        return self.x * 2
def square(n):
    return n * n
if __name__ == '__main__':
    with multiprocessing.get_context('fork').Pool(2) as pool:
        squares = pool.map(square, [1, 2, 3]) + [point.double() for point in pool.map(Point, [4])]
return [pickle.loads(pickle.dumps(Point(3))) == Point(3), inspect.getsource(Point.double), inspect.getsource(Point),
  __main__.Point is Point, squares, sorted(name for name in globals() if 'gantry' in name), __file__.endswith('/main.py')]
`
  const { said, stderr } = await runCode(t, 'python', code)
  assert.equal(stderr, '')
  const [{ value }] = said as [{ value: [boolean, string, string, boolean, number[], string[], boolean] }]
  assert.deepEqual([value[0], value[3], value[4], value[6]], [true, true, [1, 4, 9, 8], true])
  assert.equal(value[1], '    def double(self):\n        return self.x * 2\n')
  assert.match(value[2], /^@dataclasses\.dataclass\nclass Point:/)
})

test('a forked child neither sends the value nor reads the cells of its parent', async (t) => {
  const { said } = await runCode(t, 'python', 'import os\npid = os.fork()\nif pid: os.wait()\nreturn pid > 0')
  assert.deepEqual(said, [{ value: true }])
  const { cell, end } = startCells(t, 'python')
  assert.deepEqual(await cell('import os\nif os.fork(): os.wait()\n1'), [{ value: 1 }, { done: true, code: 0 }])
  assert.deepEqual(await cell('2'), [{ value: 2 }, { done: true, code: 0 }])
  assert.equal((await end()).exit, 0)
})

test('the driver reads the job line and no further input', async (t) => {
  const { child, channel, stdout } = startDriver(t, 'python')
  channel.write(`${jobLine('import os\nprint(os.read(3, 100))')}what follows`)
  await new Promise((resolve) => child.once('close', resolve))
  assert.equal(await stdout, "b'what follows'\n")
})

test('two interpreters give different random numbers', async (t) => {
  const [one, two] = await Promise.all([1, 2].map(() => runCode(t, 'python', 'import random\nreturn random.random()')))
  assert.notDeepEqual(one?.said, two?.said)
})

test('the program’s excepthook is called, and the driver’s folder is not on sys.path', async (t) => {
  const hook = 'import sys\nsys.excepthook = lambda kind, error, trace: print("hook", error, trace.tb_lineno)\n1/0'
  assert.deepEqual(await runCode(t, 'python', hook), {
    exit: 1,
    stdout: 'hook division by zero 3\n',
    stderr: '',
    said: [],
  })
  const { stderr } = await runCode(t, 'python', 'import python_still')
  assert.match(stderr, /ModuleNotFoundError/)
})

test('the last expression of a cell is its value, or is printed when it is not JSON', async (t) => {
  const { cell, end } = startCells(t, 'python')
  assert.deepEqual((await cell('import asyncio\nawait asyncio.sleep(0)\nx = [1]\nx')).at(0), { value: [1] })
  assert.deepEqual((await cell('for n in x:\n  if n: return "early"\n"late"')).at(0), { value: 'early' })
  assert.equal((await cell('None')).length, 1)
  assert.equal((await cell('{1}')).length, 1)
  assert.deepEqual((await cell('import sys\nsys.exit(4)')).at(0), { done: true, code: 4 })
  assert.deepEqual((await cell('raise KeyboardInterrupt')).at(0), { done: true, code: 130 })
  assert.deepEqual((await cell('x = = 1')).at(0), { done: true, code: 1 })
  assert.deepEqual((await cell('task = asyncio.ensure_future(asyncio.sleep(0, 7))\nawait asyncio.sleep(0)')).length, 1)
  assert.deepEqual((await cell('await task')).at(0), { value: 7 })
  assert.deepEqual(await end().then(({ exit, stdout }) => ({ exit, stdout })), { exit: 0, stdout: '{1}\n' })
})
