import type { ApprovalView, CallView, Identity, JsonObject } from '@gantry/contract'
import { type DefinedTool, defineTool } from '@gantry/core'
import { eventually } from './broker-site.fixture.ts'
import type { ServiceSite } from './service-site.fixture.ts'

const open = { type: 'object' } as const

export const ada: Identity = { principal: 'ada', tenant: 'acme', permissions: ['*'] }
export const bob: Identity = { principal: 'bob', tenant: 'acme', permissions: ['gantry:approve'] }
export const carl: Identity = { principal: 'carl', tenant: 'acme', permissions: ['t:*'], roles: ['staff'] }
export const mona: Identity = { principal: 'mona', tenant: 'acme', permissions: [], roles: ['managers'] }
export const eve: Identity = { principal: 'eve', tenant: 'other', permissions: ['*'] }

/** Tools `t:<name>`, some of which need approval, and the calls of them that ran. */
export interface Ledger {
  readonly ran: string[]
  readonly tools: DefinedTool[]
}

export function ledgerOf(description = 'A tool of a test.'): Ledger {
  const ran: string[] = []
  const tool = (name: string, rest: JsonObject = {}): DefinedTool =>
    defineTool({
      namespace: 't',
      name,
      version: '1.0.0',
      description,
      inputSchema: open,
      effect: 'once',
      ...rest,
      run(args, { callId, identity }) {
        ran.push(`${name} ${JSON.stringify(args)} ${identity.principal}`)
        return { name, args, step: callId.split('.').slice(1).join('.') }
      },
    })
  const tools = [
    tool('plain'),
    tool('pay', { approval: 'always', inputSchema: { type: 'object', properties: { password: {} } } }),
    tool('read', { approval: 'always', effect: 'read', cache: { ttlMs: 60_000, scope: 'tenant' } }),
    tool('slotted', { approval: 'always', concurrency: 1 }),
  ]
  return { ran, tools }
}

/** The open approval of a call; with `all`, also one that is decided. */
export function questionOf(
  site: ServiceSite,
  callId: string,
  as: Identity = ada,
  state: 'open' | 'all' = 'open',
): Promise<ApprovalView> {
  return eventually(async () => {
    const { items } = await site.service.approvals.list({ state }, as)
    return items.find((question) => question.callId === callId)
  }, `a question of ${callId}`)
}

export function stateOf(site: ServiceSite, callId: string, state: CallView['state'], as: Identity = ada) {
  return eventually(async () => {
    const view = await site.service.call(callId, as)
    return view.state === state ? view : undefined
  }, `${callId} ${state}`)
}

/** Submits a call, and resolves once it waits for approval. */
export async function asked(site: ServiceSite, tool: string, args: JsonObject = {}, as: Identity = ada) {
  const { callId } = await site.service.submit({ kind: 'call', tool, args }, as)
  await stateOf(site, callId, 'asked', as)
  return { callId, question: await questionOf(site, callId, as) }
}
