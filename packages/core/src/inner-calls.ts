import { type ChainStep, type Identity, type Result, type Tool, ToolError } from '@gantry/contract'
import type { InnerCalls } from './backends/backend.ts'
import type { DocLevel } from './catalogs/describe.ts'
import type { ChainOptions } from './chain/chain.ts'
import { countSteps } from './chain/check-chain.ts'
import type { RunStep } from './chain/context.ts'
import type { Executor, ListTools } from './executor-interface.ts'
import { closed, requestOf } from './executor-methods.ts'
import { namespaceFault } from './ids/tool-id.ts'
import { refuseCall, runCall } from './pipeline/pipeline.ts'
import type { Ports } from './pipeline/ports.ts'

/** Dependencies of the methods for programs. */
export interface InnerCallParts extends Pick<Executor, 'search' | 'describe' | 'find'> {
  readonly tools: ListTools
  readonly state: { readonly closed: boolean }
  runChain(steps: readonly ChainStep[], run: RunStep, options: ChainOptions): ReturnType<Executor['chain']>
}

/** The methods for programs: like those for callers, without the check of options, which come from the executor itself. */
export function createInnerCalls(ports: Ports, parts: InnerCallParts): InnerCalls {
  const run: InnerCalls['run'] = (tool, args, options): Promise<Result> => {
    // The options are not copied, because that would cost every call of a program.
    const request = requestOf(tool, args, options, options.callId, options.identity, options)
    return parts.state.closed ? refuseCall(request, ports, closed()) : runCall(request, ports)
  }
  return {
    run,
    async chain(steps, { identity, place, effectSink, chainId, onCall, signal, traceparent, ...options }) {
      let count = 0
      const runStep: RunStep = async (tool, args, { stepId: _step, index: _index, decisive: _decisive, ...step }) => {
        place.takeCall()
        count += 1
        const callId = step.callId ?? `${chainId}.${count}`
        const request = { effectSink, traceparent, ...step }
        const result = await runCall(requestOf(tool, args, request, callId, identity, { place }), ports)
        onCall(result)
        return result
      }
      // The chain itself refuses a value that is not a list of steps.
      return parts.runChain(steps as readonly ChainStep[], runStep, { ...options, chainId, signal, traceparent })
    },
    countSteps,
    search: (words, options) => parts.search(words, options),
    describe: (tool, { level, ...how }) =>
      parts.describe(tool, { ...how, ...(level === undefined ? {} : { level: level as DocLevel }) }),
    async named({ namespaces, ids }, { identity, signal }) {
      // A search discovers the tools of every backend first.
      await parts.search('', { identity, signal, limit: 1 })
      const named = new Map<string, Tool>()
      for (const namespace of namespaces) {
        for (const tool of toolsIn(parts, namespace, identity)) named.set(`${namespace}:${tool.name}`, tool)
      }
      for (const id of ids) {
        if (!named.has(id) && (await isShown(parts, id, identity))) named.set(id, parts.find(id, { identity }).tool)
      }
      return [...named].map(([id, tool]) => ({ id, tool }))
    },
  }
}

const pageSize = 1_000

function* toolsIn({ tools }: InnerCallParts, namespace: string, identity: Identity): Generator<Tool> {
  if (namespaceFault(namespace) !== undefined) return
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = tools({ namespace, identity, limit: pageSize, cursor })
    for (const { tool } of page.items) yield tool
    cursor = page.cursor
  }
}

async function isShown({ describe }: InnerCallParts, id: string, identity: Identity): Promise<boolean> {
  try {
    await describe(id, { identity })
    return true
  } catch (error) {
    if (ToolError.is(error)) return false
    throw error
  }
}
