import { type ChainResult, type ChainStep, type Result, ToolError } from '@gantry/contract'
import type { ChainOptions } from './chain/chain.ts'
import { chainFailure, engineOf, refuseLocalOptions } from './chain/work-engine.ts'
import type { CodeOptions, RunOptions } from './executor-interface.ts'
import { checkRunOptions, closed, ownIdentity, type SharedParts } from './executor-methods.ts'

type Given = ChainOptions & { readonly identity?: RunOptions['identity'] }
type Asked = Pick<CodeOptions, 'language' | 'limits' | 'check'>

/** Hands chains and programs to the engine that they name. Never rejects. */
export interface Handover {
  chain(engine: string, steps: readonly ChainStep[], given: Given): Promise<ChainResult>
  code(engine: string, code: string, asked: Asked, given: RunOptions): Promise<Result>
}

const localOfChains = ['around', 'resume', 'now', 'onCircuitOpen', 'traceparent']
const localOfCalls = [
  ...['report', 'effectSink', 'program', 'recorded', 'retry', 'backend', 'schemaDigest', 'fence', 'origin'],
  ...['onCircuitOpen', 'traceparent', 'idempotencyKey'],
]

export function createHandover(
  {
    engines,
    owner,
    nextId,
    chainLimits,
    state,
    now = Date.now,
  }: Omit<SharedParts, 'ready' | 'createCatalog' | 'chainId'>,
  refuse: (code: string, asked: Asked, given: RunOptions, reason: ToolError) => Promise<Result>,
): Handover {
  return {
    async chain(name, steps, given) {
      const { chainId: id = nextId(), identity = owner, input = null, limits, timeoutMs, signal, onStep } = given
      try {
        if (state.closed) throw closed()
        refuseLocalOptions(given, localOfChains)
        const engine = engineOf(engines, name)
        const { refuseInvalid } = await import('./chain/chain.ts')
        const all = { ...chainLimits, ...limits }
        refuseInvalid(steps, { input, limits: all })
        return await engine.chain({
          id,
          identity: ownIdentity(identity),
          steps,
          input,
          limits: all,
          timeoutMs,
          signal,
          onStep,
        })
      } catch (error) {
        return chainFailure(id, asToolError(error), now())
      }
    },
    async code(name, code, asked, given) {
      const { callId: id = nextId(), identity = owner, timeoutMs, signal } = given
      try {
        if (state.closed) throw closed()
        const fault = checkRunOptions(given)
        if (fault !== undefined) throw fault
        refuseLocalOptions(given, localOfCalls)
        return await engineOf(engines, name).code({
          id,
          identity: ownIdentity(identity),
          code,
          ...asked,
          timeoutMs,
          signal,
        })
      } catch (error) {
        return refuse(code, asked, { callId: id, identity, signal }, asToolError(error))
      }
    },
  }
}

function asToolError(error: unknown): ToolError {
  return ToolError.is(error) ? error : new ToolError('INTERNAL', 'The engine failed.', { cause: error })
}
