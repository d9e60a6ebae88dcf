import { setTimeout as delay } from 'node:timers/promises'
import type { SandboxLimits } from '@gantry/contract'
import { createProcessRuntime, type Runtime, type Sandbox } from '@gantry/sandbox'
import { createContainerdRuntime, createDockerRuntime, createGvisorRuntime } from '@gantry/sandbox-containers'
import { builtinTools, createExecutor, type Executor, openSandboxes } from 'gantry'
import { type ContainerdServer, startContainerd } from '../scripts/engines/containerd.ts'
import { type DockerServer, missingDocker, startDocker } from '../scripts/engines/docker.ts'
import { buildImages } from '../scripts/engines/sandbox-images.ts'
import { type ContainerPeers, containerPeers } from './container-peers.ts'
import { idleFigures } from './idle-processes.ts'
import { median, quantile } from './measure.ts'
import { progress } from './progress.ts'
import { figure, ratio, type Section } from './report.ts'

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
const python = { language: 'python', limits, network: 'none' } as const
const printed = 'print(6*7)'
/** Rounds that count, and those before them; our own code is compiled only after some calls. */
const coldRounds = { warm: 2, counted: 15 }
const pooledRounds = { warm: 15, counted: 40 }
/** Long enough for an interpreter to start and become idle. */
const idleMs = 200
/** What a waiting sandbox of each costs is the mean of this many. */
const waitingAtOnce = 4

/** The engines of the run. */
interface Engines {
  readonly docker: DockerServer
  readonly containerd: ContainerdServer
}

/** One way to run Python in containers: a runtime with the command-line client's counterpart. A further engine is one more. */
interface Subject {
  readonly kind: string
  create(engines: Engines): Runtime
  /** The options of the executor that configure it. */
  configured(engines: Engines): object
  /** The OCI runtime of `docker run` that it is compared with; none for a runtime without containers. */
  readonly oci?: string
}

const subjects: readonly Subject[] = [
  { kind: 'process', create: () => createProcessRuntime(), configured: () => ({}) },
  {
    kind: 'docker',
    create: ({ docker: { socket } }) => createDockerRuntime({ socket, pause: true }),
    configured: ({ docker: { socket } }) => ({ docker: { socket } }),
    oci: 'runc',
  },
  {
    kind: 'containerd',
    create: ({ containerd: { socket, namespace } }) => createContainerdRuntime({ socket, namespace, pause: true }),
    configured: ({ containerd: { socket, namespace } }) => ({ containerd: { socket, namespace } }),
    oci: 'runc',
  },
  {
    kind: 'gvisor',
    create: ({ docker: { socket } }) => createGvisorRuntime({ socket, pause: true }),
    configured: ({ docker: { socket } }) => ({ gvisor: { socket } }),
    oci: 'runsc',
  },
]

/** Python in containers, cold and waiting, beside `docker run`, `docker exec` and what else can be had, in one run. */
export async function containers(): Promise<Section> {
  const title = 'A program in a container'
  const missing = missingDocker()
  if (missing.length > 0) return { title, tables: [], notes: [`Not measured: ${missing.join('; ')}.`] }
  const docker = await startDocker()
  const containerd = await startContainerd()
  try {
    progress('containers: building the image')
    const image = await buildImages(docker, containerd, 'standard')
    const engines = { docker, containerd }
    const peers = await containerPeers(docker, image)
    const times = await measured(engines, peers)
    const idle = await idleRows(engines)
    return {
      title,
      tables: [
        {
          head: ['Python prints a number', 'p50 ms', 'p5 ms', 'p95 ms', 'ratio', 'to', 'target', 'removed ms'],
          rows: rowsOf(times),
        },
        {
          head: ['waiting Python', 'MiB', 'MiB in its control group', 'CPU ms a minute', 'pause ms', 'resume ms'],
          rows: idle,
        },
      ],
      notes: notesOf(peers),
    }
  } finally {
    await containerd.stop()
    await docker.stop()
  }
}

function notesOf({ version, absent }: ContainerPeers): string[] {
  return [
    `One program at a time, by turns, on an engine of its own that nothing else uses (${version}). \`docker run\` and \`docker exec\` are the command-line client with \`--rm\` and \`--network none\` and no limits; Gantry adds its filter of system calls, limits, masked paths, a uid and a workspace of its own, and measures. isolate is \`--init\`, \`--run\` and \`--cleanup\` of a box without control groups.`,
    '“Cold” is what a caller waits for: a container is opened by the API, the program runs, and its outcome is known when no process of the container lives any more; “removed” is the time from the beginning until the engine has removed the container too, which goes on aside. `docker run --rm` ends when that is done. “Pooled” is a whole call of `code:run` whose sandbox waited; its processes are dead when the call returns, and the removal of the container and the start of the next go on aside. The next subject begins when all of it is done.',
    `${coldRounds.counted} rounds after ${coldRounds.warm} for cold starts and for the peers, ${pooledRounds.counted} after ${pooledRounds.warm} for pooled calls, because Node compiles our code only after some calls.`,
    `MiB is the proportional set size of all processes of a waiting sandbox, those of the engine included that exist for it alone; the mean of ${waitingAtOnce}. The control group of the container counts without the engine's process, and with files that only it uses. CPU time is over 10 s. \`pause\` and \`resume\` are the medians of 15.`,
    ...(absent.length === 0 ? [] : [`Not measured, because it is not installed: ${absent.join(', ')}.`]),
  ]
}

interface Timed {
  readonly name: string
  readonly times: number[]
  /** From the beginning until the container is removed, where that is measured apart. */
  readonly removed: number[]
  /** The subject that its ratio is to. */
  readonly to?: string
  readonly target?: string
}

interface Measurement extends Omit<Timed, 'times' | 'removed'> {
  /** Resolves with what waits for the removal, where that is measured apart. */
  run(): Promise<void | (() => Promise<void>)>
}

async function measured(engines: Engines, peers: ContainerPeers): Promise<readonly Timed[]> {
  const runtimes = subjects.map(({ create }) => create(engines))
  const configured = Object.assign({}, ...subjects.map((subject) => subject.configured(engines)))
  const pools = await openSandboxes({ ...configured, limits, pool: { min: 1, max: 1, maxIdleMs: 3_600_000 } })
  const executor = createExecutor({ tools: builtinTools(), runtimes: pools })
  try {
    const cold = [
      ...peers.measurements,
      ...subjects.map(({ kind, oci }, index) => coldOf(kind, oci, runtimes[index])),
    ].map(untimed)
    const pooled = subjects.map(({ kind }) => untimed(pooledOf(kind, executor)))
    for (const { kind } of subjects) await call(executor, kind)
    const isIdle = (): boolean => pools.load().waiting >= subjects.length
    await inTurns('cold', cold, coldRounds, isIdle)
    await inTurns('pooled', pooled, pooledRounds, isIdle)
    return [...cold, ...pooled]
  } finally {
    await executor.close()
    await pools.close()
    await Promise.all(runtimes.map((runtime) => runtime.close()))
  }
}

function untimed(measurement: Measurement): Timed & Measurement {
  return { ...measurement, times: [], removed: [] }
}

/** Measures one after the other, each when the sandboxes of all pools wait again. */
async function inTurns(
  what: string,
  all: readonly (Timed & Measurement)[],
  { warm, counted }: { readonly warm: number; readonly counted: number },
  isIdle: () => boolean,
): Promise<void> {
  for (let round = -warm; round < counted; round += 1) {
    progress(`containers, ${what}: ${Math.max(0, round + 1)} of ${counted}`)
    for (const { run, times, removed } of all) {
      while (!isIdle()) await delay(10)
      await delay(idleMs)
      const before = performance.now()
      const remove = await run()
      const took = performance.now() - before
      await remove?.()
      if (round < 0) continue
      times.push(took)
      if (remove !== undefined) removed.push(performance.now() - before)
    }
  }
}

function coldOf(kind: string, oci: string | undefined, runtime: Runtime | undefined): Measurement {
  return {
    name: `**Gantry** \`${kind}\`, cold`,
    ...(oci === undefined ? {} : { to: runName(oci), target: '≤ 0.5×' }),
    async run() {
      const sandbox = await runtime?.open(python, never)
      await sandbox?.run({ program: { kind: 'code', language: 'python', code: printed } }, never)
      const isDead = await sandbox?.kill?.()
      const remove = async (): Promise<void> => sandbox?.dispose()
      return isDead === true ? remove : remove()
    },
  }
}

function pooledOf(kind: string, executor: Executor): Measurement {
  const target = kind === 'process' ? {} : { target: '≤ 8 ms' }
  return {
    name: `**Gantry** \`${kind}\`, pooled, \`code:run\``,
    to: '`docker exec`, runc',
    ...target,
    run: () => call(executor, kind),
  }
}

/** The row of `docker run` with an OCI runtime. */
function runName(oci: string): string {
  return `\`docker run --rm\`, ${oci}`
}

async function call(executor: Executor, runtime: string): Promise<void> {
  const { status, error } = await executor.run('code:run', { language: 'python', code: printed, runtime })
  if (status !== 'ok') throw new Error(error?.message)
}

function rowsOf(all: readonly Timed[]): string[][] {
  return all.map(({ name, times, removed, to = '', target = '' }) => {
    const [p50, p5, p95] = [0.5, 0.05, 0.95].map((share) => quantile(times, share)) as [number, number, number]
    const other = all.find((one) => one.name === to)
    const beside = other === undefined ? '' : ratio(p50, median(other.times))
    const gone = removed.length === 0 ? '' : figure(median(removed))
    return [name, figure(p50), figure(p5), figure(p95), beside, other === undefined ? '' : to, target, gone]
  })
}

/** Memory and processor time of waiting sandboxes, and what it costs to pause one. */
async function idleRows(engines: Engines): Promise<string[][]> {
  const rows: string[][] = []
  for (const { kind, create } of subjects) {
    progress(`containers, waiting: ${kind}`)
    const runtime = create(engines)
    try {
      await (await runtime.open(python, never)).dispose()
      const open: Sandbox[] = []
      const { bytes, cpuMs } = await idleFigures(
        (kind === 'containerd' ? engines.containerd : engines.docker).folder,
        async () => {
          for (let count = 0; count < waitingAtOnce; count += 1) open.push(await runtime.open(python, never))
          await delay(1_500)
        },
      )
      const group = open.map((sandbox) => sandbox.memoryBytes?.() ?? Number.NaN)
      const pauses = open[0] === undefined ? [] : await pauseTimes(open[0])
      rows.push([
        `**Gantry** \`${kind}\``,
        figure(bytes / waitingAtOnce / 2 ** 20),
        figure(median(group) / 2 ** 20),
        figure(cpuMs / waitingAtOnce),
        ...[0, 1].map((index) => figure(median(pauses.map((pair) => pair[index] ?? Number.NaN)))),
      ])
      for (const sandbox of open) await sandbox.dispose()
    } finally {
      await runtime.close()
    }
  }
  return rows
}

async function pauseTimes({ pausing }: Sandbox): Promise<[pause: number, resume: number][]> {
  const times: [number, number][] = []
  if (pausing === undefined) return times
  for (let count = 0; count < 15; count += 1) {
    const before = performance.now()
    await pausing.pause(never)
    const between = performance.now()
    await pausing.resume(never)
    times.push([between - before, performance.now() - between])
  }
  return times
}
