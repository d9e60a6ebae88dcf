// A streaming tool, a reader that reads to the end, one that stops early, and a refused call.
import { setImmediate as turn } from 'node:timers/promises'
import { createExecutor, defineTool } from 'gantry'

const produced: number[] = []
let cleanUps = 0
const count = defineTool({
  namespace: 'demo',
  name: 'count',
  description: 'Counts and reports as it goes.',
  effect: 'read',
  inputSchema: { type: 'object', properties: { to: { type: 'integer' } }, required: ['to'] },
  async *run({ to }, context) {
    context.log('starting', { to })
    try {
      for (let number = 1; number <= to; number++) {
        produced.push(number)
        context.progress(number, to)
        yield number
        // Real tools wait for I/O; without a wait, newer progress replaces unread progress.
        await turn()
      }
      return { counted: to }
    } finally {
      cleanUps += 1
    }
  },
})
const gantry = createExecutor({ tools: [count] })

console.log('to the end')
for await (const event of gantry.stream('demo:count', { to: 3 })) {
  if (event.kind === 'progress') console.log(`  #${event.id} progress ${event.progress} of ${event.total}`)
  if (event.kind === 'chunk') console.log(`  #${event.id} chunk ${event.data}`)
  if (event.kind === 'log') console.log(`  #${event.id} ${event.level}: ${event.message}`, event.data)
  if (event.kind === 'done') console.log(`  #${event.id} done`, event.result.status, event.result.output)
}

console.log('a reader that leaves')
produced.length = 0
for await (const event of gantry.stream('demo:count', { to: 1_000_000 })) {
  if (event.kind === 'chunk' && event.data === 2) break
}
console.log('  the tool stopped early:', produced.length < 1_000)

console.log('a call that is refused still ends its stream')
for await (const event of gantry.stream('demo:count', { to: 'three' })) {
  if (event.kind === 'error') console.log(`  #${event.id} error`, event.error.code, event.result.status)
}

console.log('the same tool without a stream')
produced.length = 0
const { output } = await gantry.run('demo:count', { to: 2 })
console.log(' ', output)
console.log('the tool cleaned up each time it had started:', cleanUps)

await gantry.close()
