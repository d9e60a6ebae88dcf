import assert from 'node:assert/strict'
import { after } from 'node:test'
import { runOnce } from '@gantry/conformance/internal/attacks/attack'
import { sandboxTest } from '@gantry/conformance/internal/sandbox-test'
import { createProcessRuntime } from './process.ts'

const runtime = createProcessRuntime()
after(() => runtime.close())

const python = (code: string) => runOnce(runtime, { program: { kind: 'code', language: 'python', code } })

sandboxTest('an excess of POSIX file locks, which no control group counts, ends the run', async () => {
  const { hit } = await python(`
import fcntl, time
file = open('locked', 'w+b')
for at in range(0, 40_000, 2): fcntl.lockf(file, fcntl.LOCK_EX, 1, at)
time.sleep(10)`)
  assert.equal(hit, 'memoryBytes')
})

sandboxTest('the file locks of SQLite are allowed', async () => {
  const code =
    'import sqlite3\nbase = sqlite3.connect("a.db")\nbase.execute("create table t (x)")\nbase.commit()\nreturn 1'
  assert.equal((await python(code)).value, 1)
})

sandboxTest('file leases and socket filters are refused', async () => {
  const { value } = await python(`
import ctypes, fcntl, socket
found = []
try:
  fcntl.fcntl(open('/etc/passwd'), 1024, 0); found.append('lease')
except OSError: pass
class Filter(ctypes.Structure): _fields_ = [('len', ctypes.c_ushort), ('filter', ctypes.c_void_p)]
code = (ctypes.c_ulonglong * 1)(0x0006 | (0xffff << 32))
one, other = socket.socketpair()
try:
  one.setsockopt(socket.SOL_SOCKET, 26, bytes(Filter(1, ctypes.addressof(code)))); found.append('filter')
except OSError: pass
one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
return found`)
  assert.deepEqual(value, [])
})

sandboxTest('files with control, backslash or bidirectional characters in their names are not collected', async () => {
  const code = 'for name in ["ok.txt", "a\\nb", "..\\\\evil", "\\u202egnp.exe"]: open(name, "w").write("x")'
  const job = { program: { kind: 'code', language: 'python', code }, collect: { files: 10, bytes: 1_000 } } as const
  const { files, skipped } = await runOnce(runtime, job)
  assert.deepEqual([...files.keys()], ['ok.txt'])
  assert.equal(skipped.length, 3)
})
