import { callSchema, chainResultSchema, chainSchema } from './call.ts'
import { errorSchema } from './error.ts'
import { resultSchema, streamEventSchema } from './result.ts'
import { toolSchema } from './tool.ts'

export { callSchema, chainResultSchema, chainSchema, errorSchema, resultSchema, streamEventSchema, toolSchema }

/** The JSON Schema of everything that crosses a process, by the last part of its `$id`; each stands alone. */
export const schemas = {
  tool: toolSchema,
  call: callSchema,
  result: resultSchema,
  'stream-event': streamEventSchema,
  chain: chainSchema,
  'chain-result': chainResultSchema,
  error: errorSchema,
} as const
