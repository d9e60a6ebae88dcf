import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CallView, Result } from '@gantry/contract'
import { pgliteFolder, postgresDatabase } from '../../packages/service/test/databases.fixture.ts'
import { createRandom } from '../../packages/service/test/simulator/world.ts'
import type { NodeNews, NodeOrder } from './program-node.ts'
import { readDownstream, readLedger } from './tools.ts'

export interface ProgramStormOptions {
  readonly engine: 'pglite' | 'postgres'
  readonly workers: number
  /** The number of processes that are killed while they run programs. */
  readonly kills: number
  /** The longest time between the first tool call of a process and its kill. */
  readonly lifeMs: number
  readonly seed: number
  readonly language?: keyof typeof programs
}

/** The counts of a storm. */
export interface StormCounts {
  readonly programs: number
  readonly kills: number
  readonly attempts: number
  readonly once: number
  readonly keyed: number
  readonly unknown: number
  /** Calls with an unknown outcome that had no effect. */
  readonly undone: number
}

const calls = 50
const kinds = ['read', 'keyed', 'once', 'read', 'keyed'] as const

/** Fifty calls: of each ten, five in sequence and five in parallel; the program tolerates unknown outcomes. */
const programs = {
  javascript: (name: string): string => `
    const kinds = ${JSON.stringify(kinds)}
    const unknown = []
    const call = async (n) => {
      const kind = kinds[n % 5]
      try {
        return (await run('fault:' + kind, { id: '${name}-' + n, beforeMs: n % 3, afterMs: n % 7 })).id
      } catch (error) {
        if (kind !== 'once' || error.code !== 'OUTCOME_UNKNOWN') throw error
        unknown.push(n)
        return null
      }
    }
    const done = []
    for (let ten = 0; ten < ${calls}; ten += 10) {
      for (let n = ten; n < ten + 5; n++) done.push(await call(n))
      done.push(...(await Promise.all([5, 6, 7, 8, 9].map((n) => call(ten + n)))))
    }
    return { done, unknown, at: Date.now(), chance: Math.random() }`,
  python: (name: string): string => `
import asyncio
kinds = ${JSON.stringify(kinds)}
unknown = []
async def call(n):
    kind = kinds[n % 5]
    try:
        return (await run('fault:' + kind, {'id': '${name}-' + str(n), 'beforeMs': n % 3, 'afterMs': n % 7}))['id']
    except Exception as error:
        if kind != 'once' or getattr(error, 'code', '') != 'OUTCOME_UNKNOWN':
            raise
        unknown.append(n)
        return None
done = []
for ten in range(0, ${calls}, 10):
    for n in range(ten, ten + 5):
        done.append(await call(n))
    done += await asyncio.gather(*[call(ten + n) for n in range(5, 10)])
return {'done': done, 'unknown': unknown}
`,
}

/** The output of a program. */
interface ProgramOutput {
  readonly done: readonly (string | null)[]
  readonly unknown: readonly number[]
}

/**
 * Runs programs of fifty calls in processes that are killed repeatedly. At the end every program has ended ok, and the
 * external ledger has each effect exactly as often as its program received its outcome.
 */
export async function programStorm(t: TestContext, options: ProgramStormOptions): Promise<StormCounts> {
  const { engine, workers, kills, lifeMs, seed, language = 'javascript' } = options
  t.diagnostic(`seed ${seed}`)
  const random = createRandom(seed)
  const folder = engine === 'pglite' ? await pgliteFolder(t) : mkdtempSync(join(tmpdir(), 'gantry-programs-'))
  if (engine === 'postgres') t.after(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, 'ledger'))
  const place = engine === 'pglite' ? { folder } : { folder, url: (await postgresDatabase(t)).url }
  const ended = new Map<string, CallView>()
  let killed = 0
  let named = 0
  /** Runs one process after another; the next one loads while the current one works. */
  const lane = async (): Promise<void> => {
    const open = new Set<string>()
    let next = startChild(t)
    while (killed < kills || open.size > 0) {
      const child = next
      if (killed < kills) next = startChild(t)
      const asked = Promise.withResolvers<void>()
      const run = (name: string): void => {
        open.add(name)
        child.order({ do: 'run', name, args: { code: programs[language](name), language } })
      }
      child.hear(({ is, ...news }) => {
        if (is !== 'ended') return
        const { name, view } = news as { readonly name: string; readonly view: CallView }
        ended.set(name, view)
        open.delete(name)
        if (killed < kills) run(`p${named++}`)
        else if (open.size === 0) asked.resolve()
      })
      await child.started(place)
      for (const name of [...open]) run(name)
      while (killed < kills && open.size < atOnce) run(`p${named++}`)
      const early = random() < 0.1
      const life = (early ? Promise.resolve() : child.acting().catch(() => undefined)).then(() =>
        sleep(random() * lifeMs),
      )
      await Promise.race([asked.promise, killed < kills ? life : asked.promise])
      if (killed >= kills) {
        await asked.promise
        await child.stop()
        return
      }
      killed += 1
      await child.kill()
    }
  }
  await Promise.all(Array.from({ length: workers }, lane))
  const counts = judge(join(folder, 'ledger'), ended, killed)
  t.diagnostic(JSON.stringify(counts))
  return counts
}

/** Programs that a process runs at a time. */
const atOnce = 2

interface Child {
  order(order: NodeOrder): void
  hear(listener: (news: NodeNews) => void): void
  /** Starts the service of a loaded process, and waits until it runs. */
  started(place: { readonly folder: string; readonly url?: string }): Promise<void>
  /** Resolves when it has called a tool. */
  acting(): Promise<void>
  /** Sends SIGKILL, and waits for the exit. */
  kill(): Promise<void>
  stop(): Promise<void>
}

function startChild(t: TestContext): Child {
  const child = fork(join(import.meta.dirname, 'program-node.ts'), { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  const exit = once(child, 'exit')
  let said = ''
  child.stderr?.on('data', (text) => {
    said = `${said}${text}`.slice(-5_000)
  })
  t.after(async () => {
    child.kill('SIGKILL')
    await exit
  })
  const listeners: ((news: NodeNews) => void)[] = []
  const heard = new Set<string>()
  child.on('message', (news: NodeNews) => {
    heard.add(news.is)
    for (const listener of listeners) listener(news)
  })
  const heardOf = async (is: NodeNews['is']): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>()
    listeners.push((news) => news.is === is && resolve())
    const gone = exit.then(() => false)
    if (heard.has(is) || (await Promise.race([promise, gone])) !== false) return
    throw new Error(`It ended before it was ${is}: ${said}`)
  }
  return {
    order: (order) => void child.send(order, () => undefined),
    hear: (listener) => void listeners.push(listener),
    async started(place) {
      await heardOf('loaded')
      child.send({ do: 'start', ...place } satisfies NodeOrder)
      await heardOf('started')
    },
    acting: () => heardOf('acting'),
    async kill() {
      child.kill('SIGKILL')
      await exit
    },
    async stop() {
      child.send({ do: 'stop' } satisfies NodeOrder)
      await exit
    },
  }
}

/** Fails if an effect happened twice, or did not happen although the program received its outcome. */
function judge(ledger: string, ended: ReadonlyMap<string, CallView>, kills: number): StormCounts {
  const acts = countOf(
    readLedger(ledger)
      .filter(({ what, tool }) => what === 'act' && tool === 'once')
      .map(({ id }) => id),
  )
  const keyed = countOf(readDownstream(ledger))
  const wrong: string[] = []
  let unknown = 0
  let undone = 0
  for (const [name, { state, result }] of ended) {
    if (state !== 'ok') {
      wrong.push(`${name} is ${state}: ${JSON.stringify((result as Result).error)}`)
      continue
    }
    const received = (result as Result).output as unknown as ProgramOutput
    for (let n = 0; n < calls; n++) {
      const id = `${name}-${n}`
      const kind = kinds[n % kinds.length]
      const isUnknown = received.unknown.includes(n)
      const times = (kind === 'once' ? acts : keyed).get(id) ?? 0
      if (received.done[n] !== (isUnknown ? null : id))
        wrong.push(`${id} (${kind}) was received as ${received.done[n]}`)
      if (kind === 'read') continue
      if (times > 1) wrong.push(`${id} (${kind}) happened ${times} times`)
      if (times === 0 && !isUnknown) wrong.push(`${id} (${kind}) was received as done and is not`)
      unknown += Number(isUnknown)
      undone += Number(isUnknown && times === 0)
    }
  }
  assert.deepEqual(wrong.slice(0, 10), [], `${wrong.length} are wrong`)
  const attempts = [...ended.values()].reduce((sum, view) => sum + view.attempts, 0)
  return { programs: ended.size, kills, attempts, once: acts.size, keyed: keyed.size, unknown, undone }
}

function countOf(ids: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1)
  return counts
}
