import { fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { openPostgres } from '../packages/service/src/storage/databases/postgres.ts'
import { progress } from './progress.ts'
import type { ServiceAnswer, ServiceOrder, TurnFigures } from './service-process.ts'

/** What is measured, and what it is called in its table. */
export interface Named {
  readonly name: string
  /** With an empty `url` it gets a new database of the server. */
  readonly order: ServiceOrder
}

export interface Outcome<F> {
  readonly name: string
  /** One for each round. */
  readonly figures: readonly F[]
  readonly failed: string | undefined
}

/** Runs one order after the other in rounds, each in a new process, so that a busy moment of the machine affects all. */
export async function interleave<F>(server: string, orders: readonly Named[], rounds: number): Promise<Outcome<F>[]> {
  const found = orders.map(({ name }) => ({ name, figures: [] as F[], failed: undefined as string | undefined }))
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, { name, order }] of orders.entries()) {
      const one = found[index]
      if (one === undefined || one.failed !== undefined) continue
      progress(`service: ${plain(name)}, round ${round + 1} of ${rounds}`)
      const subject = await startSubject(server, order)
      const answer = await subject.answer()
      await subject.end()
      if ('failed' in answer) one.failed = answer.failed
      else one.figures.push(answer as F)
    }
  }
  return found
}

export interface Turned {
  readonly name: string
  /** Of the calls of all turns. */
  readonly times: readonly number[]
  readonly failed: string | undefined
}

/** A process for each order, all running; one works at a time, in short turns. */
export async function alternate(server: string, orders: readonly Named[], turns: number): Promise<Turned[]> {
  const found = orders.map(({ name }) => ({ name, times: [] as number[], failed: undefined as string | undefined }))
  const subjects: Subject[] = []
  try {
    for (const [index, { name, order }] of orders.entries()) {
      progress(`service: warming up ${plain(name)}`)
      const subject = await startSubject(server, order)
      subjects.push(subject)
      record(found[index], await subject.answer(), false)
    }
    for (let turn = 0; turn < turns; turn += 1) {
      progress(`service: round trips, turn ${turn + 1} of ${turns}`)
      for (const [index, subject] of subjects.entries()) {
        if (found[index]?.failed !== undefined) continue
        subject.tell('turn')
        record(found[index], await subject.answer(), true)
      }
    }
    return found
  } finally {
    for (const subject of subjects) {
      subject.tell('end')
      await subject.end()
    }
  }
}

function record(
  one: { times: number[]; failed: string | undefined } | undefined,
  answer: ServiceAnswer,
  counts: boolean,
) {
  if (one === undefined) return
  if ('failed' in answer) one.failed = answer.failed
  else if (counts) one.times.push(...(answer as TurnFigures).times)
}

function plain(name: string): string {
  return name.replaceAll('*', '')
}

/** A process that measures, as seen from outside. */
interface Subject {
  /** Its next message. */
  answer(): Promise<ServiceAnswer>
  tell(word: 'turn' | 'end'): void
  /** Waits for its end, and removes its database. */
  end(): Promise<void>
}

const longestMs = 900_000

async function startSubject(server: string, order: ServiceOrder): Promise<Subject> {
  const database = order.url === '' ? await createDatabase(server) : { url: order.url, drop: async () => {} }
  const file = join(import.meta.dirname, 'service-process.ts')
  const child = fork(file, [JSON.stringify({ ...order, url: database.url })], { execArgv: ['--expose-gc'] })
  const timer = setTimeout(() => child.kill('SIGKILL'), longestMs)
  const gone = once(child, 'exit')
  const died = gone.then(([code]): ServiceAnswer => ({ failed: `its process ended with ${code ?? 'a signal'}` }))
  return {
    answer: () => Promise.race([once(child, 'message').then(([message]) => message as ServiceAnswer), died]),
    tell(word) {
      if (child.connected) child.send(word)
    },
    async end() {
      await gone
      clearTimeout(timer)
      await database.drop()
    },
  }
}

/** A new database of the server, empty. */
export async function createDatabase(server: string): Promise<{ readonly url: string; drop(): Promise<void> }> {
  const name = `bench_${randomBytes(4).toString('hex')}`
  const asAdmin = async (sql: string): Promise<void> => {
    const admin = await openPostgres({ url: server, connections: 1 })
    await admin.query(sql).finally(() => admin.close())
  }
  await asAdmin(`create database ${name}`)
  const url = new URL(server)
  url.pathname = `/${name}`
  return { url: url.href, drop: () => asAdmin(`drop database ${name} with (force)`) }
}
