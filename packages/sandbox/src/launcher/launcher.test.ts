import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hostPlan, launch, processesWith, runOn, runOnce, shell, text } from './launcher.fixture.ts'

const skip = process.platform === 'linux' ? false : 'needs Linux'

test('a run reports the exit code, the signal, or 126 and 127 for a program that cannot be executed', {
  skip,
}, async () => {
  assert.deepEqual((await runOnce(hostPlan(), { script: 'exit 0' })).exit, { code: 0 })
  assert.deepEqual((await runOnce(hostPlan(), { script: 'exit 3' })).exit, { code: 3 })
  assert.deepEqual((await runOnce(hostPlan(), { script: 'kill -SEGV $$' })).exit, { signal: 'SIGSEGV' })
  const absent = await runOnce(hostPlan(), { steps: [{ argv: ['no-such-program'], env: {} }] })
  assert.deepEqual(absent.exit, { code: 127 })
  assert.match(text(absent.stderr), /no-such-program: /)
  const folder = await runOnce(hostPlan(), { steps: [{ argv: ['/tmp'], env: {} }] })
  assert.deepEqual(folder.exit, { code: 126 })
})

test('both streams and the messages arrive, and stdin ends', { skip }, async () => {
  const seen: string[] = []
  const end = await runOnce(
    hostPlan(),
    { script: 'cat; echo err >&2; echo \'{"value":[1]}\' >&3; echo nonsense >&3', stdin: Buffer.from('given') },
    {
      onOutput: (stream, bytes) => seen.push(`${stream}:${Buffer.from(bytes)}`),
      onMessage: (message) => seen.push(JSON.stringify(message)),
    },
  )
  assert.equal(text(end.stdout), 'given')
  assert.equal(text(end.stderr), 'err\n')
  assert.deepEqual(end.messages, [{ value: [1] }])
  assert.equal(end.messagesDropped, 1)
  assert.deepEqual(seen.sort(), ['stderr:err\n', 'stdout:given', '{"value":[1]}'])
})

test('a program has only the environment and descriptors of its step', { skip }, async () => {
  const script = 'ls /proc/self/fd; env'
  const steps = [{ argv: ['/bin/sh', '-c', script], env: { PATH: '/usr/bin:/bin', ONLY: 'this' }, cwd: '/' }] as const
  const lines = text((await runOnce(hostPlan(), { steps })).stdout)
    .trim()
    .split('\n')
  const [variables, descriptors] = [
    lines.filter((line) => line.includes('=')),
    lines.filter((line) => !line.includes('=')),
  ]
  /* `ls` opens the folder that it lists, and the shell adds PWD and the like. */
  assert.deepEqual(descriptors, ['0', '1', '2', '3', '4'])
  const own = variables.filter((line) => !/^(PWD|OLDPWD|SHLVL|_)=/.test(line))
  assert.deepEqual(own.sort(), ['ONLY=this', 'PATH=/usr/bin:/bin'])
})

test('a program starts with its own session, umask and default signal handlers', { skip }, async () => {
  const script = 'umask; grep -E "^Sig(Blk|Ign)" /proc/self/status | cut -f 2; ps -o pid=,sid= -p $$ | xargs'
  const [umask, blocked, ignored, ids = ''] = text((await runOnce(hostPlan(), { script })).stdout).split('\n')
  assert.deepEqual([umask, blocked, ignored], ['0022', '0'.repeat(16), '0'.repeat(16)])
  assert.match(ids, /^([0-9]+) \1$/)
})

test('steps run in order until one fails, and only the last reads stdin', { skip }, async () => {
  const steps = [shell('cat; echo one'), shell('cat; exit 4'), shell('echo three')] as const
  const failed = await runOnce(hostPlan(), { steps, stdin: Buffer.from('in') })
  assert.equal(text(failed.stdout), 'one\n')
  assert.deepEqual([failed.exit, failed.step], [{ code: 4 }, 1])
  const whole = await runOnce(hostPlan(), { steps: [steps[0], shell('cat')], stdin: Buffer.from('in') })
  assert.equal(text(whole.stdout), 'one\nin')
  assert.deepEqual([whole.exit, whole.step], [{ code: 0 }, 1])
})

test('a megabyte passes through stdin and stdout unchanged', { skip }, async () => {
  const stdin = Buffer.alloc(3_000_000, 'abcdefghijk')
  const end = await runOnce(hostPlan(), { script: 'cat', stdin, stdoutBytes: 4_000_000 })
  assert.ok(Buffer.from(end.stdout.bytes).equals(stdin))
})

test('a program that does not read or closes its stdin exits normally', { skip }, async () => {
  const stdin = Buffer.alloc(5_000_000)
  assert.deepEqual((await runOnce(hostPlan(), { script: 'exit 5', stdin })).exit, { code: 5 })
  const closed = await runOnce(hostPlan(), { script: 'exec <&-; sleep 0.1; echo out', stdin })
  assert.equal(text(closed.stdout), 'out\n')
})

test('output above its limit is truncated and counted, and a flood ends the program', { skip }, async () => {
  const over = await runOnce(hostPlan(), { script: 'head -c 5000 /dev/zero', stdoutBytes: 100 })
  assert.deepEqual([over.stdout.bytes.length, over.stdout.total, over.stdout.truncated], [100, 5_000, true])
  assert.equal(over.hit, undefined)
  const flood = await runOnce(hostPlan(), { script: 'cat /dev/zero', stdoutBytes: 100 })
  assert.deepEqual([flood.hit, flood.exit], ['stdoutBytes', { signal: 'SIGKILL' }])
  const errors = await runOnce(hostPlan(), { script: 'cat /dev/zero >&2', stderrBytes: 100 })
  assert.equal(errors.hit, 'stderrBytes')
  const messages = await runOnce(hostPlan(), { script: 'cat /dev/zero >&3' })
  assert.equal(messages.hit, 'stdoutBytes')
})

test('a program that does not end is killed at its wall limit', { skip }, async () => {
  for (const script of ['trap "" TERM INT HUP; echo in; while :; do sleep 1; done', 'echo in; kill -STOP $$']) {
    const end = await runOnce(hostPlan(), { script }, { wallMs: 300 })
    assert.deepEqual([end.hit, end.exit, end.alive], ['wallMs', { signal: 'SIGKILL' }, false])
    assert.equal(text(end.stdout), 'in\n')
  }
})

test('the wall limit applies while the host’s event loop is blocked', { skip }, async () => {
  const mark = `40${process.pid}`
  const wait = (): void => {
    while (processesWith(mark).length > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)
  }
  const end = await runOnce(hostPlan(), { script: `echo up; sleep ${mark}` }, { wallMs: 200, onOutput: wait })
  assert.equal(end.hit, 'wallMs')
})

test('background processes of a program are killed before its run ends', { skip }, async () => {
  const mark = `31${process.pid}`
  const script = `(setsid sh -c "trap '' TERM; sleep ${mark}" &) ; (setsid sleep ${mark} > /dev/null 2>&1 < /dev/null &); echo up`
  const launched = await launch(hostPlan())
  const end = await runOn(launched, { script })
  assert.equal(text(end.stdout), 'up\n')
  assert.deepEqual(processesWith(mark), [])
  await launched.dispose()
})

test('a cancelled run rejects with the reason, and its processes are killed', { skip }, async () => {
  const mark = `32${process.pid}`
  const controller = new AbortController()
  const launched = await launch(hostPlan())
  const run = runOn(
    launched,
    { script: `echo up; sleep ${mark}` },
    { signal: controller.signal, onOutput: () => controller.abort(new Error('enough')) },
  )
  await assert.rejects(run, /enough/)
  assert.deepEqual(processesWith(mark), [])
  await launched.dispose()
})

test('output is delivered before a message that was written after it', { skip }, async () => {
  let printed = ''
  let early = 0
  const onMessage = (message: unknown): void => {
    if (!printed.includes(`<${message}>`)) early++
  }
  const onOutput = (_: string, bytes: Uint8Array): void => {
    printed += Buffer.from(bytes).toString()
  }
  const script = 'n=0; while [ $n -lt 3000 ]; do echo "<$n>"; echo $n >&3; n=$((n+1)); done'
  const end = await runOnce(hostPlan(), { script }, { onOutput, onMessage })
  assert.deepEqual([end.messages.length, early], [3_000, 0])
})

test('the init enforces memory, pids and CPU time without control groups', { skip }, async () => {
  const memory = await runOnce(hostPlan(), {
    script: 'head -c 200M /dev/zero | tail',
    watch: { memoryBytes: 60_000_000 },
  })
  assert.deepEqual([memory.hit, memory.exit], ['memoryBytes', { signal: 'SIGKILL' }])
  const many = 'for n in 1 2 3 4 5 6 7 8 9; do sleep 60 & done; wait'
  assert.equal((await runOnce(hostPlan(), { script: many, watch: { pids: 5 } })).hit, 'pids')
  assert.equal((await runOnce(hostPlan(), { script: 'while :; do :; done', watch: { cpuMs: 100 } })).hit, 'cpuMs')
  const within = await runOnce(hostPlan(), {
    script: 'sleep 0.1',
    watch: { memoryBytes: 60_000_000, pids: 5, cpuMs: 5_000 },
  })
  assert.deepEqual([within.hit, within.exit], [undefined, { code: 0 }])
})

test('the rlimits of a step apply to its program', { skip }, async () => {
  const step = shell('ulimit -n; ulimit -f', { rlimits: { nofile: 77, fsize: 1_024_000 } })
  assert.match(text((await runOnce(hostPlan(), { steps: [step] })).stdout), /^77\n(1000|2000)\n$/)
})
