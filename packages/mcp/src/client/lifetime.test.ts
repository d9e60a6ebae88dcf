import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { isGone, open, raw, until } from './backend.fixture.ts'
import { startChild } from './child-process.ts'

test('a program that does not end in time is killed at the end of the grace period', async (t) => {
  const server = open({ command: raw('stubborn') })
  const { pid } = JSON.parse((await server.call('pid')).content[0]?.text ?? '{}')
  const late = new AbortController()
  // From here on no timer fires, so that only the signal can lead to the end.
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const closing = server.backend.close?.(late.signal)
  assert.ok(!isGone(pid))
  late.abort()
  while (!isGone(pid)) await new Promise((resolve) => setImmediate(resolve))
  await closing
  t.mock.timers.reset()
  await server[Symbol.asyncDispose]()
})

test('a program that is still being connected to is killed at the end of the grace period', async (t) => {
  const server = open({ command: raw('mute') })
  const calling = assert.rejects(server.call('add'), { code: 'BACKEND_UNAVAILABLE' })
  await until(() => process.listenerCount('exit') > before)
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const late = new AbortController()
  const closing = server.backend.close?.(late.signal)
  late.abort()
  await closing
  t.mock.timers.reset()
  await calling
  assert.equal(process.listenerCount('exit'), before)
  await server[Symbol.asyncDispose]()
})
const before = process.listenerCount('exit')

for (const how of ['exit', 'close']) {
  test(`no process of a server survives the exit of its host (${how})`, async () => {
    const host = spawn(process.execPath, [join(import.meta.dirname, 'host.fixture.ts'), how], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const ended = once(host, 'exit')
    const [line] = await once(createInterface({ input: host.stdout }), 'line')
    const pid = Number(line)
    assert.ok(pid > 0)
    try {
      assert.deepEqual(await ended, [0, null])
      for (let turn = 0; turn < 500 && !isGone(pid); turn++) await new Promise((resolve) => setTimeout(resolve, 10))
      assert.ok(isGone(pid), 'the server outlived its host')
    } finally {
      if (!isGone(pid)) process.kill(pid, 'SIGKILL')
    }
  })
}

test('ended programs leave no listener on the process', async () => {
  const [listeners, most] = [process.listenerCount('exit'), process.getMaxListeners()]
  const warnings: string[] = []
  const onWarning = ({ name }: Error): void => void warnings.push(name)
  process.on('warning', onWarning)
  const life = new AbortController()
  const plan = { ...quiet(life.signal), command: ['/bin/sh', '-c', 'read line'] as const }
  const children = await Promise.all(Array.from({ length: 12 }, () => startChild({ ...plan })))
  assert.equal(process.listenerCount('exit'), listeners + 12)
  await Promise.all(children.map((child) => child.stop()))
  await assert.rejects(startChild({ ...plan, command: ['/nowhere/at-all'] }), { code: 'BACKEND_UNAVAILABLE' })
  await new Promise((resolve) => setImmediate(resolve))
  process.off('warning', onWarning)
  assert.deepEqual([process.listenerCount('exit'), process.getMaxListeners()], [listeners, most])
  assert.deepEqual(warnings, [])
})

test('a program that exits before the first write is reported with its exit code', async () => {
  const ends: string[] = []
  const child = await startChild({
    ...quiet(new AbortController().signal),
    command: ['/bin/sh', '-c', 'echo no licence >&2; exit 3'],
    onEnd: (reason) => ends.push(reason),
  })
  // Without letting this process notice, so that the broken pipe is the first that it hears of it.
  while (!isGone(child.pid ?? 0)) {}
  const writing = assert.rejects(child.write('{}\n'), { code: 'EPIPE' })
  await child.stop()
  await writing
  assert.deepEqual(ends, ['The MCP server test ended with exit code 3. The last it said: "no licence"'])
})

function quiet(kill: AbortSignal) {
  const nothing = (): void => undefined
  return {
    server: 'test',
    env: {},
    hidden: [],
    maxLineBytes: 1_000,
    kill,
    onLine: nothing,
    onLog: nothing,
    onEnd: nothing,
  }
}
