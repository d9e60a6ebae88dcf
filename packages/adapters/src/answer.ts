import type { JsonObject, Result } from '@gantry/contract'
import type { Adapter } from './adapter.ts'
import type { Names } from './names.ts'

/** Runs one call; usually `executor.run`, with the caller's identity and signal put in by the host. */
export type RunCall = (tool: string, args: JsonObject, options: { readonly schemaDigest: string }) => Promise<Result>

/**
 * Makes all calls that a message asks for, at once, and gives their result messages in the order of the calls.
 * A call that cannot be made is answered too. Rejects with PAYLOAD_INVALID when the message itself is wrong.
 */
export async function answerCalls<R>(
  adapter: Adapter<unknown, R>,
  message: unknown,
  names: Names,
  run: RunCall,
): Promise<R[]> {
  return Promise.all(
    adapter.calls(message, names).map(async (call) => {
      const outcome = call.ok ? await run(call.tool, call.args, { schemaDigest: call.schemaDigest }) : call.error
      return adapter.result(call, outcome)
    }),
  )
}
