import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { median } from './measure.ts'

/** What a subject's process is told to do. */
export type Order =
  | { readonly kind: 'warm'; readonly ms: number; readonly batchMs: number }
  | { readonly kind: 'batch' }
  /** Microseconds of processor time a call, over all batches so far. */
  | { readonly kind: 'processor' }
  | { readonly kind: 'singles'; readonly batches: number }
  | { readonly kind: 'tail'; readonly share: number }
  | { readonly kind: 'allocated'; readonly calls: number }

export type Answer = { readonly value: number } | { readonly failed: string }

interface Figures {
  readonly p50: number
  /** Processor time, the mean of all batches. */
  readonly cpu: number
  readonly p99: number
  readonly bytes: number
}

/** What was measured of one subject: microseconds and bytes a call, or why nothing was. */
export type Measured = (Figures & { readonly name: string }) | { readonly name: string; readonly failed: string }

export interface Effort {
  readonly rounds: number
  /** Batches of one subject before the next has its turn. */
  readonly turn: number
  readonly warmMs: number
  /** Shorter than the time slice of a scheduler, so that a busy machine spoils some batches and not all. */
  readonly batchMs: number
  /** Calls over which allocation is measured. */
  readonly calls: number
}

const usual: Effort = { rounds: 25, turn: 8, warmMs: 1_200, batchMs: 2, calls: 1_000 }
/** A young generation that holds everything the measured calls allocate, so that nothing is collected between. */
const roomy = ['--expose-gc', '--min-semi-space-size=256', '--max-semi-space-size=256']

/**
 * Measures subjects of a module side by side: one process each, in rounds A, B, C, A, B, C, so that a busy moment of
 * the machine falls on all of them alike. Only one works at a time.
 */
export async function measureSubjects(
  module: string,
  names: readonly string[],
  effort: Partial<Effort> = {},
): Promise<Measured[]> {
  const { rounds, turn, warmMs, batchMs, calls } = { ...usual, ...effort }
  const title = module.replace('-subjects.ts', '')
  progress(`${title}: warming up ${names.length} processes`)
  const subjects: Subject[] = []
  for (const name of names) subjects.push(await Subject.start(module, name, []))
  try {
    await each(subjects, (subject) => subject.ask({ kind: 'warm', ms: warmMs, batchMs }))
    for (let round = 0; round < rounds; round += 1) {
      if (round % 5 === 0) progress(`${title}: round ${round + 1} of ${rounds}`)
      await each(subjects, async (subject) => {
        for (let n = 0; n < turn; n += 1) subject.batches.push(await subject.ask({ kind: 'batch' }))
        await subject.ask({ kind: 'singles', batches: turn })
      })
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

/** Shows what is being done on one line of the terminal; in a log, on lines of their own. */
export function progress(text: string): void {
  process.stderr.write(process.stderr.isTTY ? `\r\x1b[Kbench: ${text}` : `bench: ${text}\n`)
}

/** Leaves the line to whatever is printed next. */
export function endProgress(): void {
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K')
}

/** The median of a subject, or NaN when it was not measured. */
export function p50Of(measured: readonly Measured[], name: string): number {
  const found = measured.find((one) => one.name === name)
  return found !== undefined && 'p50' in found ? found.p50 : Number.NaN
}

async function each(subjects: readonly Subject[], work: (subject: Subject) => Promise<unknown>): Promise<void> {
  for (const subject of subjects) if (subject.failed === undefined) await work(subject)
}

async function outcome(module: string, subject: Subject, calls: number): Promise<Measured> {
  const { name } = subject
  if (subject.failed !== undefined) return { name, failed: subject.failed }
  const cpu = await subject.ask({ kind: 'processor' })
  const p99 = await subject.ask({ kind: 'tail', share: 0.99 })
  const again = await Subject.start(module, name, roomy)
  try {
    await again.ask({ kind: 'warm', ms: 500, batchMs: 1 })
    const bytes = await again.ask({ kind: 'allocated', calls })
    return { name, p50: median(subject.batches), cpu, p99, bytes }
  } finally {
    again.stop()
  }
}

/** A subject's process as seen from outside; once it has failed it stays so, and asks answer NaN. */
class Subject {
  readonly name: string
  readonly batches: number[] = []
  readonly #child: ChildProcess
  readonly #gone: Promise<Answer>
  failed: string | undefined

  private constructor(name: string, child: ChildProcess) {
    this.name = name
    this.#child = child
    this.#gone = once(child, 'exit').then(([code]) => ({ failed: `its process ended with ${code}` }))
  }

  static async start(module: string, name: string, execArgv: string[]): Promise<Subject> {
    const child = fork(join(import.meta.dirname, 'subject-process.ts'), [module, name], { execArgv })
    const subject = new Subject(name, child)
    await subject.#answer()
    return subject
  }

  ask(order: Order): Promise<number> {
    this.#child.send(order)
    return this.#answer()
  }

  stop(): void {
    this.#child.kill()
  }

  async #answer(): Promise<number> {
    const heard = once(this.#child, 'message').then(([message]) => message as Answer)
    const answer = await Promise.race([heard, this.#gone])
    if ('value' in answer) return answer.value
    this.failed = answer.failed
    return Number.NaN
  }
}
