// One subject in a separate process, so that no library slows another by its imports; it measures on command.
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { allocatedBytes, median, quantile, type Run, type Setup, timeBatch, timeSingles, warmUp } from './measure.ts'
import type { Answer, Order } from './subjects.ts'

/** Warm-up time, because an idle processor is slow at first. */
const leadMs = 60

const [module = '', name = ''] = process.argv.slice(2)
const means: number[] = []
const singles: number[] = []
let batch = 1

process.on('message', async (order: Order) => {
  process.send?.(await answer(order).catch(failure))
})
const run = await setUp()

async function setUp(): Promise<Run> {
  try {
    const file = pathToFileURL(join(import.meta.dirname, module)).href
    const { subjects } = (await import(file)) as { subjects: { readonly [name: string]: Setup } }
    const setup = subjects[name]
    if (setup === undefined) throw new Error(`no subject ${name} in ${module}`)
    const made = await setup()
    await made(0)
    process.send?.({ values: [] } satisfies Answer)
    return made
  } catch (error) {
    process.send?.(failure(error))
    return () => undefined
  }
}

async function answer(order: Order): Promise<Answer> {
  switch (order.kind) {
    case 'warm':
      batch = await warmUp(run, order.ms, order.batchMs)
      return { values: [] }
    case 'turn':
      await turn(order.batches)
      return { values: [] }
    case 'summary':
      return { values: [median(means), quantile(means, 0.05), quantile(singles, 0.99)] }
    case 'allocated':
      return { values: [await allocatedBytes(run, order.calls)] }
  }
}

/** Some batches in a row, then as many calls one by one. */
async function turn(batches: number): Promise<void> {
  await warmUp(run, leadMs, 1)
  for (let n = 0; n < batches; n += 1) means.push(await timeBatch(run, batch))
  for (const time of await timeSingles(run, batches * batch)) singles.push(time)
}

function failure(error: unknown): Answer {
  return { failed: error instanceof Error ? error.message : String(error) }
}
