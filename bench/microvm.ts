import { spawnSync } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'
import type { SandboxLimits } from '@gantry/contract'
import { createProcessRuntime, type Runtime } from '@gantry/sandbox'
import { createRuntimes } from '@gantry/sandbox/internal/runtimes/create-runtimes'
import { createQemuRuntime } from '@gantry/sandbox-microvm'
import { buildMachines, missingQemu } from '../scripts/engines/qemu.ts'
import { median, quantile } from './measure.ts'
import { progress } from './progress.ts'
import { figure, type Section } from './report.ts'

const limits: SandboxLimits = {
  wallMs: 120_000,
  cpuMs: 120_000,
  memoryBytes: 268_435_456,
  pids: 64,
  diskBytes: 33_554_432,
  stdoutBytes: 1_048_576,
  stderrBytes: 1_048_576,
}
const never = new AbortController().signal
const spec = { language: 'python', limits, network: 'none' } as const
const job = { program: { kind: 'code', language: 'python', code: 'print(6*7)' } } as const
/** Long enough for the next sandbox to start and wait. */
const idleMs = 1_000
const title = 'A program in a virtual machine'

interface Subject {
  readonly name: string
  readonly target: string
  readonly rounds: number
  run(): Promise<void>
}

/** Python in machines of QEMU: booted, begun as a snapshot, and waiting in a pool; beside plain bubblewrap. */
export async function microvm(): Promise<Section> {
  const missing = missingQemu()
  if (missing.length > 0) return { title, tables: [], notes: [`Not measured: ${missing.join('; ')}.`] }
  const store = await buildMachines()
  const booted = createQemuRuntime({ store, snapshots: false })
  const begun = createQemuRuntime({ store })
  const pool = { min: 1, max: 1, maxIdleMs: 3_600_000 }
  const pooled = createRuntimes({ runtimes: [createQemuRuntime({ store })], pool })
  const local = createProcessRuntime()
  const subjects: readonly Subject[] = [
    { name: '`bwrap python3 -c`', target: '', rounds: 8, run: async () => plainBubblewrap() },
    { name: '**Gantry** `process`, cold', target: '', rounds: 8, run: () => once(local) },
    { name: '**Gantry** `qemu`, booted', target: '', rounds: 3, run: () => once(booted) },
    { name: '**Gantry** `qemu`, from a snapshot', target: '≤ 150 ms', rounds: 8, run: () => once(begun) },
    {
      name: '**Gantry** `qemu`, pooled',
      target: '≤ 10 ms',
      rounds: 8,
      run: async () => void (await pooled.run({ ...job, limits }, never)),
    },
  ]
  try {
    const rows: string[][] = []
    for (const { name, target, rounds, run } of subjects) {
      const times: number[] = []
      for (let round = -1; round < rounds; round += 1) {
        progress(`microvm, ${name}: ${Math.max(0, round + 1)} of ${rounds}`)
        await delay(idleMs)
        const before = performance.now()
        await run()
        if (round >= 0) times.push(performance.now() - before)
      }
      const quantiles = [median(times), quantile(times, 0.05), quantile(times, 0.95)]
      rows.push([name, ...quantiles.map((one) => figure(one)), target])
    }
    return {
      title,
      tables: [{ head: ['Python prints a number', 'p50 ms', 'p5 ms', 'p95 ms', 'target'], rows }],
      notes: [
        'QEMU emulates the processor here, because there is no KVM that works: the guest takes some ten to twenty times as long as the host for the same instructions. One program at a time. “Booted” and “from a snapshot” are from the request for a sandbox to the outcome; the first sandbox of a process, for which the snapshot is taken, is left out.',
      ],
    }
  } finally {
    await Promise.all([booted, begun, pooled, local].map((one) => one.close()))
  }
}

async function once(runtime: Runtime): Promise<void> {
  const sandbox = await runtime.open(spec, never)
  await sandbox.run(job, never)
  await sandbox.dispose()
}

function plainBubblewrap(): void {
  const { status } = spawnSync('bwrap', ['--unshare-all', '--ro-bind', '/', '/', 'python3', '-c', 'print(6*7)'])
  if (status !== 0) throw new Error('bwrap does not run.')
}
