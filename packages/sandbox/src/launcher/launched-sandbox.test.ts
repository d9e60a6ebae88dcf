import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { hostPlan, launch, noSandbox, processesWith, runOn, runOnce, sandboxPlan, text } from './launcher.fixture.ts'

const skip = noSandbox
const notRoot = noSandbox !== false ? noSandbox : process.getuid?.() === 0 ? false : 'needs root'

test('a program in the sandbox has only its streams, files and message channel', { skip }, async () => {
  const script =
    'id -u; cat; cat in.txt; ls /proc/self/fd | tr "\\n" " "; echo err >&2; echo \'{"value":6}\' >&3; echo o > out; exit 3'
  const files = new Map([['in.txt', Buffer.from('file ')]])
  const end = await runOnce(sandboxPlan(), {
    script,
    files,
    stdin: Buffer.from('in '),
    collect: { files: 9, bytes: 99 },
  })
  assert.equal(text(end.stdout), '1000\nin file 0 1 2 3 4 ')
  assert.equal(text(end.stderr), 'err\n')
  assert.deepEqual([end.exit, end.messages, [...end.files.keys()]], [{ code: 3 }, [{ value: 6 }], ['out']])
  assert.equal(end.free === undefined ? 0 : end.free.bytes < 33_554_432, true)
})

test('a program cannot signal or inspect process 1 or its channels', { skip }, async () => {
  const script = [
    'kill -9 1; kill -STOP 1; kill -TERM 1; kill -CHLD 1',
    'for file in mem environ maps fd/3 exe; do cat /proc/1/$file > /dev/null 2>&1 && echo "read $file"; done',
    'ls /proc/1/fd > /dev/null 2>&1 && echo "listed"',
    'tr "\\0" " " < /proc/1/cmdline',
  ]
  const end = await runOnce(sandboxPlan(), { script: script.join('\n') })
  assert.equal(text(end.stdout), '/gantry/init init ')
  assert.deepEqual(end.exit, { code: 0 })
  /* The same looks at a process of its own succeed, so it is not that nothing could be read. */
  const own = await runOnce(sandboxPlan(), { script: 'sleep 9 & ls /proc/$!/fd > /dev/null && echo listed' })
  assert.equal(text(own.stdout), 'listed\n')
})

test('daemonized processes die with the program and do not keep its streams open', { skip }, async () => {
  const mark = `33${process.pid}`
  const script = `(setsid sh -c "trap '' TERM HUP; sleep ${mark}; :" &); (setsid sleep ${mark} &); echo up`
  const launched = await launch(sandboxPlan())
  const end = await runOn(launched, { script })
  assert.equal(text(end.stdout), 'up\n')
  assert.deepEqual(processesWith(mark), [])
  await launched.dispose()
})

test('kill -9 -1 in a program does not kill the init', { skip }, async () => {
  const end = await runOnce(sandboxPlan(), { script: 'sleep 60 & kill -9 -1; echo after' })
  assert.equal(end.hit, undefined)
  assert.deepEqual([text(end.stdout), end.exit], ['after\n', { code: 0 }])
})

test('the wall limit ends programs that ignore signals, stop themselves or daemonize', { skip }, async () => {
  const scripts = ['trap "" TERM INT; while :; do sleep 1; done', 'kill -STOP $$', 'setsid sleep 60 & exec sleep 60']
  for (const script of scripts) {
    const launched = await launch(sandboxPlan())
    const end = await runOn(launched, { script }, { wallMs: 200 })
    assert.deepEqual([end.hit, end.exit], ['wallMs', { signal: 'SIGKILL' }])
    const last = await launched.dispose()
    assert.deepEqual([last.reason, last.left], ['wall', []])
  }
})

test('a full workspace is reported as zero free bytes, and an input file that does not fit as unwritten', {
  skip,
}, async () => {
  const end = await runOnce(sandboxPlan(), { script: 'head -c 100M /dev/zero > fill' })
  assert.deepEqual([end.exit, end.free?.bytes], [{ code: 1 }, 0])
  const big = new Map([['big', Buffer.alloc(40_000_000)]])
  const unwritten = await runOnce(sandboxPlan(), { script: 'true', files: big })
  assert.deepEqual(unwritten.unwritten, { path: 'big', code: 'ENOSPC' })
})

test('the program has another session keyring than the host', { skip }, async () => {
  const keyringsOf = (keys: string): string[] =>
    [...keys.matchAll(/^([0-9a-f]{8}) .* keyring +(_ses|gantry-sandbox)/gm)].map(([, id, name]) => `${name} ${id}`)
  const theirs = keyringsOf(text((await runOnce(sandboxPlan(), { script: 'cat /proc/keys' })).stdout))
  const ours = keyringsOf(readFileSync('/proc/keys', 'utf8')).filter((keyring) => keyring.startsWith('_ses'))
  assert.equal(theirs.length, 1)
  assert.equal(ours.includes(theirs[0] ?? ''), false)
})

test('a program has only the uid and gid of its plan, and no_new_privs is set', {
  skip: notRoot,
}, async () => {
  const script = 'id -u; id -G; grep NoNewPrivs /proc/self/status'
  const groups = process.getgroups?.() ?? []
  process.setgroups?.([0, 64_003])
  try {
    const end = await runOnce(hostPlan({ uid: 64_001, gid: 64_002 }), { script })
    assert.equal(text(end.stdout), '64001\n64002\nNoNewPrivs:\t1\n')
    const ours = await runOnce(hostPlan(), { script })
    assert.equal(text(ours.stdout), '0\n0 64003\nNoNewPrivs:\t1\n', 'without a uid it stays who we are')
  } finally {
    process.setgroups?.(groups)
  }
})

test('the program has the highest OOM score and cannot lower it', {
  skip,
}, async () => {
  const ours = Number(readFileSync('/proc/self/oom_score_adj', 'utf8'))
  const script = `cat /proc/self/oom_score_adj; echo ${ours - 1} > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj`
  assert.equal(text((await runOnce(sandboxPlan(), { script })).stdout), '1000\n1000\n')
})

test('the error of a failed start contains the message of bubblewrap', { skip }, async () => {
  const plan = sandboxPlan({}, ['--ro-bind', '/no/such/folder', '/x'])
  await assert.rejects(launch(plan), { code: 'SANDBOX_INIT_FAILED', message: /no\/such\/folder/ })
})

test('epoll registrations are counted over the life of a sandbox, in all its processes, and refused above the limit', {
  skip,
}, async () => {
  const script = `exec python3 -c '
import os, select
def register(count):
    poll, made = select.epoll(), 0
    for _ in range(count):
        event = os.eventfd(0)
        try: poll.register(event, select.EPOLLIN)
        except OSError as error: return [made, error.errno]
        poll.modify(event, select.EPOLLOUT)
        poll.unregister(event)
        made += 1
    return [made, 0]
if os.fork() == 0:
    print(register(3), flush=True)
    os._exit(0)
os.wait()
print(register(9), register(9))'`
  const counted = await runOnce(sandboxPlan({ epollWatches: 5 }), { script })
  assert.equal(text(counted.stdout), '[3, 0]\n[2, 28] [0, 28]\n', text(counted.stderr))
  const free = await runOnce(sandboxPlan(), { script })
  assert.equal(text(free.stdout), '[3, 0]\n[9, 0] [9, 0]\n')
})
