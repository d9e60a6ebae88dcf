import { appendFileSync, readFileSync } from 'node:fs'
import { type DefinedTool, defineTool } from '@gantry/core'

const inputSchema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] } as const
const forever = (): Promise<never> => new Promise(() => undefined)

/** Tools that note each call in a file, outside of the systems under test; some never end in the worker that is to be killed. */
export function killTools(ledger: string): readonly DefinedTool[] {
  const note = (text: string): number => {
    appendFileSync(ledger, `${text}\n`)
    return readFileSync(ledger, 'utf8')
      .split('\n')
      .filter((line) => line === text).length
  }
  const tool = (name: string, more: object, run: (n: number) => unknown): DefinedTool =>
    defineTool({
      namespace: 'my',
      name,
      description: `The tool ${name}.`,
      effect: 'once',
      inputSchema,
      ...more,
      run: ({ n }) => run(Number(n)),
    })
  return [
    // Its first call never ends.
    tool('slow', { effect: 'read' }, (n) => (note(`slow ${n}`) === 1 ? forever() : n)),
    // No call of it ends.
    tool('hold', {}, (n) => {
      note(`hold ${n}`)
      return forever()
    }),
    // Its first call never ends; what it did is found by its key.
    tool(
      'send',
      {
        effect: 'reconcilable',
        lookup: () => {
          note('lookup of send')
          return { found: true, output: 'sent' }
        },
      },
      (n) => {
        note(`send ${n}`)
        return forever()
      },
    ),
    tool('pay', { approval: 'always' }, (n) => {
      note(`pay ${n}`)
      return n
    }),
  ]
}

/** A read, a call with an effect and a call that can be looked up, whose workers are killed, and one that waits for approval meanwhile. */
export const killProgram = `
  const slow = await tools.my.slow({ n: 1 })
  const held = await tools.my.hold({ n: 2 }).catch((error) => error.code)
  const sent = await tools.my.send({ n: 3 })
  const paid = await tools.my.pay({ n: 4 })
  return { slow, held, sent, paid }
`
