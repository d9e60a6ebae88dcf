import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { progress } from './progress.ts'

/** A command to a subject's process. */
export type Order =
  | { readonly kind: 'warm'; readonly ms: number; readonly batchMs: number }
  | { readonly kind: 'turn'; readonly batches: number }
  /** Requests p50, p5 and p99 of all turns so far, in microseconds per call. */
  | { readonly kind: 'summary' }
  | { readonly kind: 'allocated'; readonly calls: number }

export type Answer = { readonly values: readonly number[] } | { readonly failed: string }

interface Figures {
  readonly p50: number
  /** The fastest batches, which the machine disturbed least; without most collections. */
  readonly p5: number
  readonly p99: number
  readonly bytes: number
}

/** The measurement of one subject: microseconds and bytes per call, or why there is none. */
export type Measured = (Figures & { readonly name: string }) | { readonly name: string; readonly failed: string }

export interface Effort {
  readonly rounds: number
  /** Batches of one subject before the next has its turn. */
  readonly batches: number
  readonly warmMs: number
  /** Shorter than a scheduler's time slice, so that a busy machine affects some batches and not all. */
  readonly batchMs: number
  /** Calls over which allocation is measured. */
  readonly calls: number
}

const usual: Effort = { rounds: 25, batches: 8, warmMs: 1_200, batchMs: 2, calls: 1_000 }
/** A young generation that holds everything the measured calls allocate, so that nothing is collected between. */
const roomy = ['--expose-gc', '--min-semi-space-size=256', '--max-semi-space-size=256']

/**
 * Measures subjects of a module side by side: one process each, in rounds A, B, C, A, B, C, so that a busy moment of
 * the machine affects all of them. Only one works at a time.
 */
export async function measureSubjects(
  module: string,
  names: readonly string[],
  effort: Partial<Effort> = {},
): Promise<Measured[]> {
  const { rounds, batches, warmMs, batchMs, calls } = { ...usual, ...effort }
  const title = module.replace('-subjects.ts', '')
  const subjects: Subject[] = []
  try {
    for (const name of names) {
      progress(`${title}: warming up ${name}`)
      const subject = await Subject.start(module, name)
      subjects.push(subject)
      await subject.ask({ kind: 'warm', ms: warmMs, batchMs })
    }
    for (let round = 0; round < rounds; round += 1) {
      if (round % 5 === 0) progress(`${title}: round ${round + 1} of ${rounds}`)
      for (const subject of subjects) await subject.ask({ kind: 'turn', batches })
    }
    const measured: Measured[] = []
    for (const subject of subjects) {
      progress(`${title}: allocation of ${subject.name}`)
      measured.push(await outcome(module, subject, calls))
    }
    return measured
  } finally {
    for (const subject of subjects) subject.stop()
  }
}

/** The median of a subject, or NaN when it was not measured. */
export function p50Of(measured: readonly Measured[], name: string): number {
  const found = measured.find((one) => one.name === name)
  return found !== undefined && 'p50' in found ? found.p50 : Number.NaN
}

async function outcome(module: string, subject: Subject, calls: number): Promise<Measured> {
  const { name } = subject
  const [p50 = Number.NaN, p5 = Number.NaN, p99 = Number.NaN] = await subject.ask({ kind: 'summary' })
  if (subject.failed !== undefined) return { name, failed: subject.failed }
  const again = await Subject.start(module, name, roomy)
  try {
    await again.ask({ kind: 'warm', ms: 500, batchMs: 1 })
    const [bytes = Number.NaN] = await again.ask({ kind: 'allocated', calls })
    return { name, p50, p5, p99, bytes }
  } finally {
    again.stop()
  }
}

/** The parent's view of a subject's process; after a failure it stays failed and does not answer. */
class Subject {
  readonly name: string
  readonly #child: ChildProcess
  readonly #gone: Promise<Answer>
  failed: string | undefined

  private constructor(name: string, child: ChildProcess) {
    this.name = name
    this.#child = child
    this.#gone = once(child, 'exit').then(([code]) => ({ failed: `its process ended with ${code}` }))
  }

  static async start(module: string, name: string, execArgv: string[] = []): Promise<Subject> {
    const child = fork(join(import.meta.dirname, 'subject-process.ts'), [module, name], { execArgv })
    const subject = new Subject(name, child)
    await subject.#answer()
    return subject
  }

  async ask(order: Order): Promise<readonly number[]> {
    if (this.failed !== undefined) return []
    this.#child.send(order)
    return this.#answer()
  }

  stop(): void {
    this.#child.kill()
  }

  async #answer(): Promise<readonly number[]> {
    const received = once(this.#child, 'message').then(([message]) => message as Answer)
    const answer = await Promise.race([received, this.#gone])
    if ('values' in answer) return answer.values
    this.failed = answer.failed
    return []
  }
}
