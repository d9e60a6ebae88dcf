import { setTimeout as delay } from 'node:timers/promises'
import { createExecutor, type Executor } from 'gantry'
import { addTools } from './add-tool.ts'
import { bareQuickjs, threadEcho } from './code-peers.ts'
import { quantile } from './measure.ts'
import { progress } from './progress.ts'
import { figure, ratio, type Section } from './report.ts'
import { freshQuickjs } from './sandbox-peers.ts'

const rounds = 60
const calls = 500
/** Rounds that are not counted, so that the code of all subjects is compiled as in a process that has run for a while. */
const warm = { cold: 1_000, inner: 20 }

/** Programs over tools: the cost of an empty run, and of each inner call. */
export async function code(): Promise<Section> {
  const executor = createExecutor({ tools: addTools() })
  try {
    await warmUp(executor)
    const cold = await interleave(coldSubjects(executor), 1, warm.cold, 4)
    const inner = await interleave(await innerSubjects(executor), calls, warm.inner, 0)
    return {
      title: 'Programs over tools',
      tables: [
        {
          head: ['a run of `return 1`, fresh context', 'p50 µs', 'p5 µs', 'p95 µs', 'to the first', 'target'],
          rows: cold,
        },
        { head: ['a call inside of a program', 'p50 µs', 'p5 µs', 'p95 µs', 'to the first', 'target'], rows: inner },
      ],
      notes,
    }
  } finally {
    await executor.close()
  }
}

const notes = [
  `A run is the whole of \`executor.code\`, pipeline and report included, in a process that has done ${warm.cold.toLocaleString('en-US')} of them; QuickJS in this thread has no limits, no isolation from its host and no prelude.`,
  `A call is one of ${calls} of a local function in one run, one awaited after the other or 100 at a time, each with its own pipeline run. The echo is a text to another thread and back by \`postMessage\`; the bare QuickJS calls a function of its host in the same thread.`,
]

interface Subject {
  readonly work: () => Promise<unknown> | unknown
  readonly target?: string
}

function coldSubjects(executor: Executor): { readonly [name: string]: Subject } {
  return {
    'QuickJS, context in this thread': { work: freshQuickjs },
    '**Gantry** JavaScript': { work: () => ended(executor, 'return 1', 'javascript'), target: '≤ 1,000' },
    '**Gantry** TypeScript': { work: () => ended(executor, 'return 1', 'typescript'), target: '≤ 1,000' },
  }
}

async function innerSubjects(
  executor: Executor,
): Promise<{ readonly [name: string]: Subject & { close?(): unknown } }> {
  const echo = await threadEcho()
  const bare = await bareQuickjs()
  const one = `for (let i = 0; i < ${calls}; i++) await tools.math.add({ a: i, b: 2 })`
  const many = `for (let i = 0; i < ${calls}; i += 100) await Promise.all(Array.from({ length: 100 }, (_, n) => tools.math.add({ a: i + n, b: 2 })))`
  return {
    'echo of another thread': { work: () => echo.run(calls), close: echo.close },
    'bare QuickJS, host function in this thread': { work: () => bare(calls) },
    '**Gantry** one after the other': { work: () => ended(executor, one, 'javascript'), target: '≤ 20' },
    '**Gantry** 100 at a time': { work: () => ended(executor, many, 'javascript') },
  }
}

async function ended(executor: Executor, text: string, language: 'javascript' | 'typescript'): Promise<void> {
  const { status, error } = await executor.code(text, { language, limits: { toolCalls: calls } })
  if (status !== 'ok') throw new Error(error?.message)
}

/** Long enough for the first thread to compile its code. */
async function warmUp(executor: Executor): Promise<void> {
  await ended(executor, 'return 1', 'typescript')
  await delay(2_000)
}

/** How many of the warm-up rounds are like the measured ones. */
const warmRests = 10

/** Runs each subject once a round, so that a busy moment of the machine affects all of them; times are per `per`. */
async function interleave(
  subjects: { readonly [name: string]: Subject & { close?(): unknown } },
  per: number,
  unheard: number,
  restMs: number,
): Promise<string[][]> {
  const list = Object.entries(subjects)
  const times = list.map((): number[] => [])
  for (let round = -unheard; round < rounds; round += 1) {
    progress(`code ${Math.max(0, round + 1)} of ${rounds}`)
    for (const [index, [, { work }]] of list.entries()) {
      // The next context is prepared after a run; a run that follows at once would wait for it.
      if (restMs > 0 && round >= -warmRests) await delay(restMs)
      const before = performance.now()
      await work()
      if (round >= 0) times[index]?.push(((performance.now() - before) * 1_000) / per)
    }
  }
  for (const [, { close }] of list) await close?.()
  const first = quantile(times[0] ?? [], 0.5)
  return list.map(([name, { target = '' }], index) => {
    const own = times[index] ?? []
    const [p50, p5, p95] = [0.5, 0.05, 0.95].map((each) => quantile(own, each)) as [number, number, number]
    return [name, figure(p50), figure(p5), figure(p95), ratio(p50, first), target]
  })
}
