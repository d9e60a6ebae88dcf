import type { ChainResult, ErrorInfo, Result } from '@gantry/contract'
import { someResult as sampleResult } from '../conformance/call-store/samples.ts'
import type { Bus, WorkerEvent, WorkerEvents } from '../observe/bus.ts'
import type { AdmittedCall, Claim } from '../storage/calls/call-store.ts'
import { heldClaim } from '../storage/calls/claim.fixture.ts'

/** An admitted call. */
export function someCall(given: Partial<AdmittedCall> = {}): AdmittedCall {
  return {
    callId: 'c-1',
    kind: 'call',
    identity: { principal: 'ada', tenant: 'acme', permissions: ['*'] },
    fingerprint: 'f',
    tool: 'test:it:1.0.0',
    digest: 'd',
    effect: 'read',
    payload: '{}',
    payloadBytes: 2,
    ...given,
  }
}

export function someClaim(given: Partial<Claim> = {}, call: Partial<AdmittedCall> = {}): Claim {
  const callId = given.callId ?? 'c-1'
  return { ...heldClaim(someCall({ callId, ...call })), callId, ...given }
}

export function someResult(given: Partial<Result> = {}): Result {
  const { tool: _tool, ...result } = sampleResult('c-1', { output: null })
  return { ...result, ...given }
}

export function someError(given: Partial<ErrorInfo> = {}): ErrorInfo {
  return { code: 'CANCELLED', message: 'no', stage: 'execute', retryable: false, effect: 'possible', ...given }
}

/** A bus that records its events. */
export function memoryBus(): Bus & { readonly received: { name: WorkerEvent; event: unknown }[] } {
  const received: { name: WorkerEvent; event: unknown }[] = []
  return {
    received,
    emit<Name extends WorkerEvent>(name: Name, event: WorkerEvents[Name]) {
      received.push({ name, event })
    },
    on: () => () => undefined,
  }
}

export type Outcome = Result | ChainResult
