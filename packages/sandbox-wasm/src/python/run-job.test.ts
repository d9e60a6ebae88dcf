import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import { limits } from '../run.fixture.ts'
import { encodeFrame, fromHost, pieceBytes, toHost } from './frames.ts'
import { connectHost } from './host-process.ts'
import { createScriptedHost, type ScriptedHost } from './hosts.fixture.ts'
import { createPythonRuns } from './run-job.ts'

const program = { kind: 'code', language: 'python', code: '' } as const
const collect = { files: 2, bytes: 200_000 }
const report = { cpuMs: 5, memoryBytes: 65_536, refusedMemory: false, refusedDisk: false }
const broken = { code: 'BACKEND_FAILED', effect: 'possible' }

interface Script {
  readonly run?: (host: ScriptedHost) => void
  readonly report?: (host: ScriptedHost) => void
  readonly wallMs?: number
  readonly session?: boolean
  readonly job?: Partial<SandboxJob>
}

const end = (host: ScriptedHost): void => host.say(fromHost.end, '0')
const giveReport = (host: ScriptedHost): void => host.say(fromHost.report, JSON.stringify(report))

/** One run in a host that follows a script. */
function play(script: Script) {
  const host = createScriptedHost((kind, self) => {
    if (kind === toHost.job) (script.run ?? end)(self)
    else (script.report ?? giveReport)(self)
  })
  const { session = false, wallMs = limits.wallMs } = script
  const spec = { language: 'python', network: 'none', session, limits: { ...limits, wallMs } } as const
  const job = { program, collect, ...script.job }
  return { host, outcome: createPythonRuns(connectHost(host), spec, 0).run(job, AbortSignal.timeout(20_000)) }
}

test('a run ends with the outcome, files and usage that the host reports', async () => {
  const { outcome } = play({
    run(host) {
      host.say(fromHost.stdout, 'said')
      end(host)
    },
    report(host) {
      host.say(fromHost.file, JSON.stringify({ path: 'a', bytes: pieceBytes + 1 }))
      host.say(fromHost.content, new Uint8Array(pieceBytes).fill(1))
      host.say(fromHost.content, new Uint8Array([2]))
      host.say(fromHost.file, JSON.stringify({ path: 'empty', bytes: 0 }))
      giveReport(host)
    },
  })
  const { exit, stdout, files, usage } = await outcome
  assert.deepEqual([exit, Buffer.from(stdout.bytes).toString(), usage.memoryPeakBytes], [{ code: 0 }, 'said', 65_536])
  assert.deepEqual(files.get('a'), new Uint8Array([...new Uint8Array(pieceBytes).fill(1), 2]))
  assert.deepEqual(files.get('empty'), new Uint8Array(0))
})

test('limits apply to a host that ends its program and then sends no report', async () => {
  const { host, outcome } = play({ wallMs: 200, report: () => undefined })
  const { hit, exit } = await outcome
  assert.deepEqual([hit, exit, host.killed], ['wallMs', { signal: 'SIGKILL' }, true])
})

test('limits apply to a session host that sends the done line and then no report', async () => {
  const done = (host: ScriptedHost): void => host.say(fromHost.channel, '{"done":true,"code":0}\n')
  const { host, outcome } = play({ run: done, wallMs: 200, session: true, report: () => undefined })
  assert.deepEqual([(await outcome).hit, host.killed], ['wallMs', true])
  const control = play({ run: done, session: true })
  assert.deepEqual([(await control.outcome).exit, control.host.killed], [{ code: 0 }, false])
  control.host.kill()
})

test('a host that sends no report fails the run as broken before its limits are reached', async () => {
  const silent = play({ report: () => undefined })
  let timer: NodeJS.Timeout | undefined
  const chatting = play({
    report(host) {
      timer = setInterval(() => host.say(fromHost.stdout, 'still here'), 100)
    },
  })
  await Promise.all([assert.rejects(silent.outcome, broken), assert.rejects(chatting.outcome, broken)])
  clearInterval(timer)
  assert.ok(silent.host.killed && chatting.host.killed)
})

test('a report with an invalid field fails the run as broken', async () => {
  const faults: unknown[] = [null, [], 'x', {}]
  for (const name of ['cpuMs', 'memoryBytes']) {
    for (const value of [-1, '5', null, 2 ** 60, {}]) faults.push({ ...report, [name]: value })
  }
  for (const name of ['refusedMemory', 'refusedDisk']) {
    for (const value of [0, 'true', null]) faults.push({ ...report, [name]: value })
  }
  for (const fault of [...faults.map((value) => JSON.stringify(value)), '', '{', '{"cpuMs":1e999}']) {
    const { host, outcome } = play({ report: (self) => self.say(fromHost.report, fault) })
    await assert.rejects(outcome, broken, fault)
    assert.ok(host.killed, fault)
  }
})

test('a host that sends more files or bytes than requested or declared fails the run as broken', async () => {
  const named = (bytes: unknown, path: unknown = 'a') => [fromHost.file, JSON.stringify({ path, bytes })] as const
  const piece = (bytes: number) => [fromHost.content, new Uint8Array(bytes)] as const
  const scripts: (readonly (readonly [number, string | Uint8Array])[])[] = [
    [named(200_001)],
    [named(-1)],
    [named(1.5)],
    [named('1')],
    [named(0, 7)],
    [named(0), named(0, 'b'), named(0, 'c')],
    [named(2), piece(1)],
    [named(2), piece(1), named(0, 'b')],
    [named(2), piece(3)],
    [named(2), piece(0)],
    [piece(1)],
    [[fromHost.skipped, 'null']],
    [[fromHost.snapshot, 'x']],
    Array.from({ length: 20_001 }, () => [fromHost.skipped, '{"path":"a","reason":"b"}'] as const),
  ]
  for (const [index, script] of scripts.entries()) {
    const { host, outcome } = play({
      report(self) {
        for (const [kind, payload] of script) self.say(kind, payload)
        giveReport(self)
      },
    })
    await assert.rejects(outcome, broken, `script ${index}`)
    assert.ok(host.killed)
  }
})

test('a frame above the maximum length is refused from its header, and the host is killed', async () => {
  const say = (bytes: number) => (host: ScriptedHost) => {
    host.say(fromHost.stdout, new Uint8Array(bytes))
    end(host)
  }
  assert.equal((await play({ run: say(pieceBytes) }).outcome).stdout.total, pieceBytes)
  const { host, outcome } = play({ run: say(pieceBytes + 1) })
  await assert.rejects(outcome, broken)
  assert.ok(host.killed)
  // Its head is enough: nothing waits for the rest.
  const head = encodeFrame(fromHost.stdout).fill(0xff, 1)
  const announced = play({ run: (self) => self.write(head) })
  await assert.rejects(announced.outcome, broken)
})

test('an unexpected frame during a run, or an invalid exit code, fails the run as broken', async () => {
  for (const [kind, payload] of [
    [fromHost.report, JSON.stringify(report)],
    [fromHost.content, 'x'],
    [99, 'x'],
  ] as const) {
    await assert.rejects(play({ run: (host) => host.say(kind, payload) }).outcome, broken)
  }
  for (const code of ['', 'x', '1.5', 'NaN']) {
    await assert.rejects(play({ run: (host) => host.say(fromHost.end, code) }).outcome, broken, code)
  }
})

test('a host that sends frames after its report is killed', async () => {
  const { host, outcome } = play({
    session: true,
    run: (self) => self.say(fromHost.channel, '{"done":true,"code":0}\n'),
    report(self) {
      giveReport(self)
      self.say(fromHost.stdout, 'more')
    },
  })
  assert.deepEqual((await outcome).exit, { code: 0 })
  await host.exited
})

test('a flood on the channel ends the run with LIMIT_EXCEEDED and kills the host', async () => {
  for (const byte of [0x0a, 0x78]) {
    const { host, outcome } = play({
      run(self) {
        for (let count = 0; count < 80; count++) self.say(fromHost.channel, new Uint8Array(pieceBytes).fill(byte))
        end(self)
      },
    })
    await assert.rejects(outcome, { code: 'LIMIT_EXCEEDED', details: { limit: 'messageBytes' } })
    await host.exited
  }
})

test('a flood on stdout or stderr ends the run', async () => {
  for (const [kind, hit] of [
    [fromHost.stdout, 'stdoutBytes'],
    [fromHost.stderr, 'stderrBytes'],
  ] as const) {
    const say = (pieces: number) => (host: ScriptedHost) => {
      for (let count = 0; count < pieces; count++) host.say(kind, new Uint8Array(pieceBytes))
      end(host)
    }
    assert.equal((await play({ run: say(256) }).outcome).hit, hit)
    assert.equal((await play({ run: say(255) }).outcome).hit, undefined)
  }
})
