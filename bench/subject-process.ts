// One subject in a process of its own, so that no library slows another by what it loads; it works when it is told to.
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { allocatedBytes, quantile, type Setup, threadMicros, timeBatch, timeSingles, warmUp } from './measure.ts'
import type { Answer, Order } from './subjects.ts'

const [module = '', name = ''] = process.argv.slice(2)
const singles: Float64Array[] = []
let batch = 1
const spent = { micros: 0, calls: 0 }

process.on('message', async (order: Order) => {
  process.send?.(await answer(order).catch((error: unknown): Answer => ({ failed: String(error) })))
})
const run = await setUp()

async function setUp(): Promise<Awaited<ReturnType<Setup>>> {
  try {
    const { subjects } = (await import(pathToFileURL(join(import.meta.dirname, module)).href)) as {
      subjects: { readonly [name: string]: Setup }
    }
    const setup = subjects[name]
    if (setup === undefined) throw new Error(`no subject ${name} in ${module}`)
    const made = await setup()
    await made(0)
    process.send?.({ value: 0 } satisfies Answer)
    return made
  } catch (error) {
    process.send?.({ failed: error instanceof Error ? error.message : String(error) } satisfies Answer)
    return () => undefined
  }
}

async function answer(order: Order): Promise<Answer> {
  switch (order.kind) {
    case 'warm':
      batch = await warmUp(run, order.ms, order.batchMs)
      return { value: batch }
    case 'batch': {
      const before = threadMicros()
      const value = await timeBatch(run, batch)
      spent.micros += threadMicros() - before
      spent.calls += batch
      return { value }
    }
    case 'processor':
      return { value: spent.micros / spent.calls }
    case 'singles': {
      const times = await timeSingles(run, batch * order.batches)
      singles.push(times)
      return { value: times.length }
    }
    case 'tail':
      return {
        value: quantile(
          singles.flatMap((times) => [...times]),
          order.share,
        ),
      }
    case 'allocated':
      return { value: await allocatedBytes(run, order.calls) }
  }
}
