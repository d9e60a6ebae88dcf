import { readFileSync } from 'node:fs'
import type { SandboxLimits } from '@gantry/contract'
import type { Outcome, SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import type { Attack, AttackEnd, Ground } from './attack.ts'
import { endOf, javascript, lastNumber, python, tooMuchIn, wasmHas } from './programs.ts'
import { heldMemory } from './resources-memory.ts'
import { manyDescriptors } from './resources-user.ts'
import { attackLimits } from './run.ts'

const mebi = 1024 * 1024

/** A program that takes more and more of something and says how much it has, a number on each line. */
interface Bomb {
  readonly number: number
  readonly title: string
  readonly jobs: (kind: string) => readonly SandboxJob[]
  readonly narrow: Partial<SandboxLimits>
  /** For the control, which must get beyond what is possible under the narrow ones. */
  readonly wide: Partial<SandboxLimits>
  /** More than this and it was not held. */
  readonly bound: number
  /** Other than the last number that it said. */
  readonly measure?: (outcome: Outcome) => number
  readonly explained?: Attack['explained']
}

function bombAttack({ number, title, jobs, narrow, wide, bound, measure = lastNumber, explained }: Bomb): Attack {
  const most = async (run: Ground['inside'], ground: Ground, limits: Partial<SandboxLimits>): Promise<number[]> => {
    const reached: number[] = []
    for (const job of jobs(ground.kind))
      reached.push(measure(await run(job, { limits: { ...attackLimits, ...limits } })))
    ground.note(`reached ${reached.join(', ')} of at most ${bound}`)
    return reached
  }
  return {
    number,
    title,
    attempt: async (ground) => endOf((await most(ground.inside, ground, narrow)).some((reached) => reached > bound)),
    control: async (ground) => endOf((await most(ground.outside, ground, wide)).every((reached) => reached > bound)),
    ...(explained === undefined ? {} : { explained }),
  }
}

/** A run that a limit did not end has spun without end as far as anybody knows. */
function spun({ usage, hit }: Outcome): number {
  return hit === undefined ? Number.POSITIVE_INFINITY : (usage.cpuMs ?? usage.wallMs)
}

const spinning = bombAttack({
  number: 55,
  title: 'spin on every processor, in processes and threads',
  jobs: (kind) =>
    kind === 'wasm'
      ? [javascript('while (true) {}'), python('while True: pass')]
      : [
          python(
            'import threading\nfor _ in range(6):\n    if os.fork() == 0: break\ndef spin():\n    while True: pass\nthreading.Thread(target=spin).start()\nspin()',
          ),
        ],
  narrow: { cpuMs: 500, wallMs: 4_000 },
  // On a busy machine two seconds of processor time take many seconds.
  wide: { cpuMs: 2_500, wallMs: 20_000 },
  bound: 1_500,
  measure: spun,
})

const forking = bombAttack({
  number: 57,
  title: 'processes without end',
  jobs: () => [
    python(`
import time
for count in range(1, 61):
    if os.fork() == 0: time.sleep(10); os._exit(0)
    print(count, flush=True)
time.sleep(0.2)`),
  ],
  narrow: { pids: 20 },
  wide: { pids: 100 },
  bound: 20,
  explained: { wasm: wasmHas.noProcesses },
})

const filling = `
count = 0
try:
    for number in range(40):
        file = os.open(f'fill-{number}', os.O_CREAT | os.O_WRONLY)
        for _ in range(16): count += os.write(file, bytes(65536))
except OSError: pass
print(count, flush=True)`

const filledDisk = bombAttack({
  number: 59,
  title: 'the workspace is filled, in many files',
  jobs: () => [python(filling)],
  narrow: { diskBytes: 8 * mebi },
  wide: { diskBytes: 64 * mebi, memoryBytes: 512 * mebi },
  bound: 8 * mebi,
})

const flooding = bombAttack({
  number: 60,
  title: 'output without end',
  jobs: (kind) => [
    python("while True: sys.stdout.write('x' * 65536 + '\\n')"),
    ...(kind === 'wasm' ? [javascript("while (true) console.log('x'.repeat(65536))")] : []),
  ],
  narrow: { stdoutBytes: 100_000 },
  wide: { stdoutBytes: 4_000_000 },
  bound: 100_000,
  measure: ({ stdout, hit }) => (hit === 'stdoutBytes' ? stdout.bytes.length : Number.POSITIVE_INFINITY),
})

/** The kernel remembers names that do not exist; each costs it half a kilobyte that no process has. */
const missingNames = `
import random
stem = '/usr/' + 'x' * 230
base = random.getrandbits(40)
for number in range(250_000):
    if number % 5_000 == 0: print(number, flush=True)
    try: os.stat(f'{stem}{base + number}')
    except FileNotFoundError: pass`

/** Each name is held in half a kilobyte. */
const mostNames = 120_000

const growingSlab: Attack = {
  number: 61,
  title: "the kernel's memory of names grows without end",
  async attempt(ground) {
    const { outcome, names } = await remembered(ground, ground.inside, 32 * mebi)
    return names > mostNames ? tooMuchIn(outcome) : 'blocked'
  },
  control: async (ground) => endOf((await remembered(ground, ground.outside, 512 * mebi)).names > mostNames),
  explained: { wasm: wasmHas.noCalls },
}

async function remembered({ note }: Ground, run: Ground['inside'], memoryBytes: number) {
  const before = namesInKernel()
  const outcome = await run(python(missingNames), { limits: { ...attackLimits, memoryBytes } })
  const names = namesInKernel() - before
  lastNumber(outcome)
  note(`the kernel remembers ${names} names more`)
  return { outcome, names }
}

function namesInKernel(): number {
  return Number(readFileSync('/proc/sys/fs/dentry-state', 'utf8').split('\t')[0])
}

/** Nothing that could be bombed is in a runtime. */
function absent(number: number, title: string, reason: string): Attack {
  const attempt = (): Promise<AttackEnd> => Promise.reject(new Error('There is nothing to attack.'))
  return { number, title, attempt, control: 'there is nothing to attack', explained: { process: reason, wasm: reason } }
}

const unpacking = [
  absent(
    62,
    'archives that grow',
    'A runtime unpacks nothing: files go in and come out as they are, counted byte by byte.',
  ),
  absent(
    63,
    'request bodies that grow',
    'A runtime takes no request bodies; what is decoded on the way out is bounded in egress.',
  ),
  absent(
    64,
    'images and XML that grow',
    'Nothing of ours parses images or XML; what a program parses is held by its limits.',
  ),
]

/** 55–64: more than was given. */
export const resourceAttacks: readonly Attack[] = [
  ...[spinning, heldMemory, forking, manyDescriptors, filledDisk, flooding, growingSlab, ...unpacking],
]
