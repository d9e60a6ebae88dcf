import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { attackLimits } from '@gantry/conformance/internal/attacks/attack'
import { ToolError } from '@gantry/contract'
import type { ProgramGateway } from '@gantry/core/internal/runtimes/runtime'
import { readLayout } from '@gantry/sandbox/internal/process/cgroup-trees'
import { createRuntimes } from '@gantry/sandbox/internal/runtimes/create-runtimes'
import { createRemoteRuntime } from '@gantry/sandbox-remote'
import { testKey } from '../../src/test-host.fixture.ts'

const calls = 50

async function startHostProcess(port: string): Promise<{ readonly child: ChildProcess; readonly url: string }> {
  const program = join(import.meta.dirname, 'killed-host.fixture.ts')
  const child = spawn(process.execPath, [program, port, testKey.id, testKey.key], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = await once(child.stdout ?? child, 'data')
  return { child, url: String(line).trim() }
}

/** Processes in control groups of the sandboxes that a host had. */
function processesOf(host: number): readonly string[] {
  const trees = readLayout(readFileSync('/proc/self/cgroup', 'utf8'), readFileSync('/proc/self/mountinfo', 'utf8'))
  const files = trees.flatMap(({ folder }) => globSync(join(folder, `gantry-${host}-*/**/cgroup.procs`)))
  return files.flatMap((file) => {
    try {
      return readFileSync(file, 'utf8').split('\n').filter(Boolean)
    } catch {
      // The group was removed meanwhile.
      return []
    }
  })
}

test(`a host that is killed under ${calls} running calls gives each one outcome, runs none twice and leaves nothing`, async () => {
  const first = await startHostProcess('0')
  const limits = { ...attackLimits, wallMs: 120_000, memoryBytes: 128 * 1_048_576 }
  const runtimes = createRuntimes({
    runtimes: [createRemoteRuntime({ url: first.url, keyId: testKey.id, key: testKey.key })],
  })
  // The ledger is outside of the system under test: each program writes to it by a gateway request when it begins.
  const ledger: string[] = []
  const all = Promise.withResolvers<void>()
  const gateway: ProgramGateway = {
    ask(questions, answer) {
      for (const { number, text } of questions) {
        ledger.push(JSON.parse(text).args.call)
        answer({ number, ok: true, text: 'null' })
      }
      if (ledger.length >= calls) all.resolve()
    },
  }
  const run = (call: number) => {
    const code = `import time\nawait run("ledger:begin", {"call": "call ${call}"})\ntime.sleep(100)\nreturn ${call}`
    return runtimes.run(
      { program: { kind: 'code', language: 'python', code }, gateway, limits },
      AbortSignal.timeout(240_000),
    )
  }
  let second: ChildProcess | undefined
  try {
    const running = Promise.allSettled(Array.from({ length: calls }, (_, call) => run(call)))
    await all.promise
    const { pid = 0 } = first.child
    first.child.kill('SIGKILL')
    await once(first.child, 'exit')
    ;({ child: second } = await startHostProcess(new URL(first.url).port))
    const codes = (await running).map((end) =>
      end.status === 'rejected' && ToolError.is(end.reason) ? end.reason.code : JSON.stringify(end),
    )
    assert.deepEqual(
      codes,
      Array.from({ length: calls }, () => 'OUTCOME_UNKNOWN'),
    )
    assert.deepEqual(ledger.toSorted(), Array.from({ length: calls }, (_, call) => `call ${call}`).toSorted())
    while (processesOf(pid).length > 0) await delay(50)
    const { outcome } = await runtimes.run(
      { program: { kind: 'code', language: 'python', code: 'return 42' }, limits },
      AbortSignal.timeout(60_000),
    )
    assert.equal(outcome.value, 42, 'the host that was started again serves new calls')
  } finally {
    await runtimes.close()
    first.child.kill('SIGKILL')
    second?.kill('SIGKILL')
  }
})
