import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { SandboxLimits } from '@gantry/contract'
import { createProcessRuntime, type Runtime, type Runtimes } from '@gantry/sandbox'
import { createRuntimes } from '@gantry/sandbox/internal/runtimes/create-runtimes'
import { createRemoteRuntime } from '@gantry/sandbox-remote'
import { median, quantile } from './measure.ts'
import { progress } from './progress.ts'
import { figure, type Section } from './report.ts'

const limits: SandboxLimits = {
  wallMs: 30_000,
  cpuMs: 30_000,
  memoryBytes: 268_435_456,
  pids: 64,
  diskBytes: 33_554_432,
  stdoutBytes: 1_048_576,
  stderrBytes: 1_048_576,
}
const never = new AbortController().signal
const rounds = 80
const warmRounds = 10
/** Long enough for the next sandbox to start and wait. */
const idleMs = 300
const pool = { min: 1, max: 1, maxIdleMs: 3_600_000 }

/** Pooled Python on this host, and through the runtime `remote` on a host process on the loopback, by turns. */
export async function remote(): Promise<Section> {
  const key = { id: 'bench', key: randomBytes(32).toString('hex') }
  const host = spawn(process.execPath, [join(import.meta.dirname, 'remote-host.ts'), key.id, key.key], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const [line] = await once(host.stdout, 'data')
  const create = (runtime: Runtime): Runtimes => createRuntimes({ runtimes: [runtime], pool })
  const subjects = [
    { name: 'process, in this process', runtimes: create(createProcessRuntime()) },
    {
      name: 'process, through remote on the loopback',
      runtimes: create(createRemoteRuntime({ url: String(line).trim(), keyId: key.id, key: key.key })),
    },
  ].map((one) => ({ ...one, times: [] as number[] }))
  try {
    for (let round = -warmRounds; round < rounds; round += 1) {
      progress(`remote ${Math.max(0, round + 1)} of ${rounds}`)
      for (const { runtimes, times } of subjects) {
        await delay(idleMs)
        const before = performance.now()
        await runtimes.run({ program: { kind: 'code', language: 'python', code: 'print(6*7)' }, limits }, never)
        if (round >= 0) times.push(performance.now() - before)
      }
    }
  } finally {
    await Promise.all(subjects.map(({ runtimes }) => runtimes.close()))
    host.stdin.end()
    await once(host, 'exit')
  }
  const [local = [], far = []] = subjects.map(({ times }) => times)
  const over = median(far) - median(local)
  return {
    title: 'A program on another host',
    tables: [
      {
        head: ['pooled Python prints a number', 'p50 ms', 'p5 ms', 'p95 ms', 'over local, p50 ms', 'target'],
        rows: subjects.map(({ name, times }, index) => [
          name,
          figure(median(times)),
          figure(quantile(times, 0.05)),
          figure(quantile(times, 0.95)),
          index === 0 ? '' : figure(over),
          index === 0 ? '' : '≤ 2',
        ]),
      },
    ],
    notes: [
      `${rounds} programs each, one at a time, by turns, each in a sandbox that waited. The host is another process on this machine, so that the figure is that of requests, signatures and frames, without a network.`,
    ],
  }
}
