import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { attackLimits, runOnce } from '@gantry/conformance/internal/attacks/attack'
import { ToolError } from '@gantry/contract'
import type { Runtime, SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { createRuntimes } from '@gantry/sandbox/internal/runtimes/create-runtimes'
import { hostTest, startHost, type TestHost } from '../test-host.fixture.ts'
import { createRemoteRuntime } from './remote.ts'

const python = (code: string): SandboxJob => ({ program: { kind: 'code', language: 'python', code } })
const spec: SandboxSpec = { language: 'python', limits: attackLimits, network: 'none' }
const patience = (): AbortSignal => AbortSignal.timeout(60_000)

async function hosts(
  t: TestContext,
  count: number,
  options: Parameters<typeof startHost>[0] = {},
): Promise<readonly TestHost[]> {
  const all = await Promise.all(Array.from({ length: count }, () => startHost(options)))
  t.after(() => Promise.all(all.map((host) => host.close())))
  return all
}

function remoteOf(t: TestContext, ...all: readonly TestHost[]): Runtime {
  const runtime = createRemoteRuntime(all.map(({ remote }) => remote))
  t.after(() => runtime.close())
  return runtime
}

const opened = ({ records }: TestHost): number => records.filter(({ event }) => event === 'opened').length

/** A port on which nothing listens. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}

hostTest('sandboxes go to the host with the least load', async (t) => {
  const [one, other] = await hosts(t, 2)
  if (one === undefined || other === undefined) return
  const runtime = remoteOf(t, one, other)
  const sandboxes = []
  for (let count = 0; count < 4; count += 1) sandboxes.push(await runtime.open(spec, patience()))
  assert.deepEqual([opened(one), opened(other)], [2, 2])
  await Promise.all(sandboxes.map((sandbox) => sandbox.dispose()))
})

hostTest('with one of two hosts down every program runs on the other', async (t) => {
  const [host] = await hosts(t, 1)
  if (host === undefined) return
  const down = { ...host.remote, url: `http://127.0.0.1:${await freePort()}` }
  const runtime = createRemoteRuntime([down, host.remote])
  t.after(() => runtime.close())
  const outcomes = await Promise.all([1, 2, 3].map((n) => runOnce(runtime, python(`return ${n}`))))
  assert.deepEqual([outcomes.map(({ value }) => value), opened(host)], [[1, 2, 3], 3])
  const probe = await runtime.probe(patience())
  assert.ok(probe.available)
  assert.match(probe.version, /^process on 1 of 2 hosts; 127\.0\.0\.1:\d+ cannot be reached \(ECONNREFUSED\)\.$/)
})

hostTest('a host that is full refuses, and another takes the sandbox', async (t) => {
  const [small] = await hosts(t, 1, { capacity: 1 })
  const [large] = await hosts(t, 1)
  if (small === undefined || large === undefined) return
  const held = await remoteOf(t, small).open({ ...spec, session: true }, patience())
  const both = remoteOf(t, small, large)
  await (await both.open(spec, patience())).dispose()
  assert.deepEqual([opened(small), opened(large)], [1, 1])
  await assert.rejects(remoteOf(t, small).open(spec, patience()), (error) => {
    assert.ok(ToolError.is(error))
    assert.deepEqual([error.code, error.retryable], ['RUNTIME_UNAVAILABLE', true])
    assert.match(error.message, /All 1 sandboxes of the host are in use/)
    return true
  })
  await held.dispose()
})

hostTest('a host that drains finishes running programs, refuses new ones and ends idle sessions', async (t) => {
  const [host] = await hosts(t, 1)
  if (host === undefined) return
  const runtime = remoteOf(t, host)
  const [session, sandbox] = [
    await runtime.open({ ...spec, session: true }, patience()),
    await runtime.open(spec, patience()),
  ]
  await session.run(python('x = 1'), patience())
  const started = Promise.withResolvers<void>()
  const job = python('import time\nprint("on", flush=True)\ntime.sleep(1)\nreturn "whole"')
  const running = sandbox.run({ ...job, onOutput: () => started.resolve() }, patience())
  await started.promise
  const drained = host.drain()
  await assert.rejects(runtime.open(spec, patience()), (error) => {
    assert.ok(ToolError.is(error))
    assert.deepEqual([error.code, error.retryable], ['RUNTIME_UNAVAILABLE', true])
    assert.match(error.message, /The host is shutting down and opens no sandbox/)
    return true
  })
  assert.equal((await running).value, 'whole')
  await drained
  await session.ended
  assert.ok(host.records.some((record) => record.event === 'refused' && record.code === 'DRAINING'))
})

hostTest('a cancelled run kills the whole process tree on the host before it rejects', async (t) => {
  const [host] = await hosts(t, 1)
  if (host === undefined) return
  const runtime = remoteOf(t, host)
  const sandbox = await runtime.open({ limits: attackLimits, network: 'none' }, patience())
  const enough = new AbortController()
  const reason = new ToolError('CANCELLED', 'enough')
  const script = "trap '' TERM\n(setsid sh -c 'while :; do sleep 1; done' &)\necho on\nwhile :; do sleep 1; done"
  const running = sandbox.run(
    { program: { kind: 'script', script }, onOutput: () => enough.abort(reason) },
    enough.signal,
  )
  await assert.rejects(running, (error) => error === reason)
  await sandbox.ended
  assert.deepEqual(host.records.at(-1)?.event, 'ended')
})

hostTest('a session keeps its state over runs, files go in and out, and its end is known', async (t) => {
  const [host] = await hosts(t, 1)
  if (host === undefined) return
  const session = await remoteOf(t, host).open({ ...spec, session: true }, patience())
  await session.run(python('x = 41'), patience())
  const files = new Map([['in.txt', Buffer.from('one')]])
  const job = {
    ...python('open("out.txt","w").write(open("in.txt").read() + str(x + 1))'),
    files,
    collect: { files: 5, bytes: 1_000 },
  }
  const { files: found } = await session.run(job, patience())
  assert.equal(Buffer.from(found.get('out.txt') ?? []).toString(), 'one42')
  const { exit } = await session.run(python('import os\nos._exit(3)'), patience())
  assert.deepEqual(exit, { code: 3 })
  await session.ended
})

hostTest(
  'a result names the runtime of the host, and a floor above it is refused before anything is opened',
  async (t) => {
    const [host] = await hosts(t, 1)
    if (host === undefined) return
    const runtimes = createRuntimes({ runtimes: [createRemoteRuntime(host.remote)] })
    t.after(() => runtimes.close())
    const { runtime, outcome } = await runtimes.run(python('return 1'), patience())
    assert.deepEqual(runtime, { kind: 'remote', isolation: 'namespaces', inner: 'process' })
    assert.deepEqual([outcome.value, outcome.enforced.diskBytes], [1, 'tmpfs size'])
    await assert.rejects(
      runtimes.run({ ...python('return 1'), floor: 'microvm' }, patience()),
      /at least microvm is required/,
    )
    assert.equal(opened(host), 1)
  },
)

hostTest('a request for a network is refused, because the guard of egress is in this process', async (t) => {
  const [host] = await hosts(t, 1)
  if (host === undefined) return
  const runtime = remoteOf(t, host)
  const networked: SandboxSpec = { ...spec, network: { allow: ['https://example.com'] } }
  assert.match(runtime.refuses(networked)?.reason ?? '', /gets no network/)
  await assert.rejects(runtime.open(networked, patience()), /gets no network/)
  assert.equal(opened(host), 0)
})

hostTest(
  'on a full host a sandbox that waits for its program ends for one that is needed now, and did not start',
  async (t) => {
    const [host] = await hosts(t, 1, { capacity: 1 })
    if (host === undefined) return
    const waiting = await remoteOf(t, host).open(spec, patience())
    const other = remoteOf(t, host)
    const open = async (): Promise<void> => {
      for (;;) {
        const sandbox = await other.open(spec, patience()).catch(() => undefined)
        if (sandbox !== undefined) return sandbox.dispose()
        await delay(50)
      }
    }
    await open()
    await assert.rejects(waiting.run(python('return 1'), patience()), (error) => {
      assert.ok(ToolError.is(error))
      assert.deepEqual([error.code, error.effect], ['SANDBOX_INIT_FAILED', 'none'])
      return true
    })
  },
)
