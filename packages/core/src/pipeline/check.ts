import { type EffectClass, type JsonObject, type OnCircuitOpen, ToolError } from '@gantry/contract'
import { isStandardSchema } from '@gantry/json-schema'
import { asksApproval } from './authorize.ts'
import { failureOf } from './failure.ts'
import { lookup } from './lookup.ts'
import type { CallRequest, Ports } from './ports.ts'
import type { PreparedTool } from './prepare.ts'
import { Run } from './run.ts'
import { plainArgs, validateInput } from './validate-input.ts'

/** A call that would be let through as things stand, and what whoever makes it later needs to know. */
export interface CheckedCall {
  /** `namespace:name:version` of the tool that was meant. */
  readonly id: string
  /** `namespace:name`. */
  readonly key: string
  readonly version: string
  /** Of the definition that was checked; as `schemaDigest` of the call it refuses another one. */
  readonly digest: string
  /** Of what the call depends on; as `schemaDigest` it refuses another one, though not another description. */
  readonly callDigest: string
  readonly effect: EffectClass
  /** The time that the call would get. */
  readonly timeoutMs: number
  /** Calls with this key do not run more than so many at a time; absent when there is no such limit. */
  readonly concurrency?: { readonly key: string; readonly limit: number }
  /** Only where there are these labels may the call run; absent when anywhere will do. */
  readonly placement?: { readonly [label: string]: string }
  /** Units that the call takes of budgets; absent when it costs nothing. */
  readonly cost?: number
  /** What becomes of the call while its circuit is open; absent when neither the call nor its tool says so. */
  readonly onCircuitOpen?: OnCircuitOpen
  /** It is a program over tools, which a host that keeps a journal can take up again. */
  readonly program?: true
  /** Somebody must approve the call before it runs. */
  readonly asks: boolean
  /** A plain copy of the arguments as they were given, to call with. */
  readonly args: JsonObject
}

/**
 * The stages before the backend, without the call: nothing runs, nobody is asked to approve, nothing is on record.
 * Rejects with the ToolError that would have ended the call. What it allows is asked again when the call is made.
 */
export async function checkCall(request: CallRequest, ports: Ports): Promise<CheckedCall> {
  const run = new Run(request, ports)
  try {
    const found = lookup(run)
    const tool = found instanceof Promise ? await found : found
    const checked = validateInput(run, tool)
    const args = checked instanceof Promise ? await checked : checked
    const asks = await asksApproval(run, tool, args)
    return describeCall(run, tool, givenArgs(run, tool, args), asks)
  } catch (error) {
    throw harmless(failureOf(run, error))
  } finally {
    run.end()
  }
}

/** No secret was fetched and nothing ran, so there is nothing to hide and nothing can have happened. */
export function harmless({ code, message, stage, retryable, details, cause }: ToolError): ToolError {
  return new ToolError(code, message, { stage, retryable, effect: 'none', cause, ...(details && { details }) })
}

/** What a vendor's checker made of the arguments must not go through it a second time. */
function givenArgs(run: Run, { input, argsCopy }: PreparedTool, checked: JsonObject): JsonObject {
  return isStandardSchema(input) ? plainArgs(run.request.args, argsCopy) : checked
}

function describeCall(run: Run, { entry }: PreparedTool, args: JsonObject, asks: boolean): CheckedCall {
  const { id, key, digest, callDigest, tool } = entry
  const { version, effect, concurrency: limit, concurrencyKey = key, placement, cost = 0 } = tool
  const concurrency = limit === undefined ? {} : { concurrency: { key: concurrencyKey, limit } }
  const place = placement === undefined || Object.keys(placement).length === 0 ? {} : { placement }
  const price = cost === 0 ? {} : { cost }
  const onCircuitOpen = run.request.onCircuitOpen ?? tool.onCircuitOpen
  const open = onCircuitOpen === undefined ? {} : { onCircuitOpen }
  const program = tool.backends.some(({ kind }) => kind === 'program') ? ({ program: true } as const) : {}
  return {
    id,
    key,
    version,
    digest,
    callDigest,
    effect,
    timeoutMs: run.timeoutMs(),
    ...concurrency,
    ...place,
    ...price,
    ...open,
    ...program,
    asks,
    args,
  }
}
