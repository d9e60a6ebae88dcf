import { compileSchema } from '@gantry/json-schema'
import { createExecutor } from 'gantry'
import { add, addTools, inputSchema, outputSchema } from './add-tool.ts'
import { aiSdk, langChain, mcpInMemory } from './local-call-peers.ts'
import type { Run, Setup } from './measure.ts'
import { importPeer } from './peers.ts'

type Check = (value: unknown) => boolean

/** The subjects that make the call `math:add`, by name. */
export const subjects: { readonly [name: string]: Setup } = {
  bare: () => (n) => add({ a: n, b: 3 }),
  ajv: async () => {
    const { Ajv } = await importPeer<{ Ajv: new () => { compile(schema: object): Check } }>('ajv')
    const ajv = new Ajv()
    return checked(ajv.compile(inputSchema), ajv.compile(outputSchema))
  },
  validators: () => checked(compileSchema(inputSchema).check, compileSchema(outputSchema).check),
  'gantry sync': () => gantry('math:add'),
  'gantry async': () => gantry('math:add_async'),
  mcp: mcpInMemory,
  'ai sdk': aiSdk,
  langchain: langChain,
}

function checked(input: Check, output: Check): Run {
  return async (n) => {
    const args = { a: n, b: 3 }
    if (!input(args)) throw new Error('input')
    const result = await add(args)
    if (!output(result)) throw new Error('output')
    return result
  }
}

async function gantry(tool: string): Promise<Run> {
  const executor = createExecutor({ tools: addTools() })
  const { status } = await executor.run(tool, { a: 0, b: 3 })
  if (status !== 'ok') throw new Error(`the call ended as ${status}`)
  return (n) => executor.run(tool, { a: n, b: 3 })
}
