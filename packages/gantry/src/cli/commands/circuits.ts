import type { CircuitStateView, CircuitView, Client } from '@gantry/client'
import { ToolError } from '@gantry/contract'
import type { Command } from '../io.ts'
import { factsText, printJson, tableText } from '../print.ts'
import { withService } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Lists the circuit breakers of a service, those that are not closed first. */
export const listCircuits: Command = ({ options }, io) =>
  withService(options, io, async (client) => {
    const items = await client.circuits({ signal: io.signal })
    if (options.json === true) await printJson({ items }, io)
    else if (items.length === 0) await io.out('No circuits: no call has reached a backend yet.\n')
    else {
      const rows = items
        .toSorted((one, other) => Number(isWell(one)) - Number(isWell(other)))
        .map((one) => [one.key, stateText(one), `${one.failures}/${one.calls}`, seenBy(one), nextTrial(one)])
      await io.out(tableText(['circuit', 'state', 'faults', 'seen by', 'next trial'], rows, io))
    }
    return 0
  })

/** The tenants whose state of the circuit is not closed. */
function seenBy({ tenants }: CircuitView): string {
  return tenants.flatMap(({ tenant, state }) => (state === 'closed' ? [] : [tenant])).join(', ')
}

/** A circuit that is closed for all tenants together may be open for some of them. */
export function stateText({ state, tenants }: Pick<CircuitView, 'state' | 'tenants'>): string {
  const refused = tenants.filter((one) => one.state !== 'closed').length
  return state === 'closed' && refused > 0 ? `open for ${refused} of ${tenants.length} tenants` : state
}

function isWell(circuit: CircuitView): boolean {
  return circuit.state === 'closed' && seenBy(circuit) === ''
}

/** When the next trial may begin; absent while none is due. */
export function nextTrial({ state, retryAt }: CircuitStateView): string | undefined {
  if (state === 'trial') return 'now'
  return state === 'open' && retryAt !== undefined ? timeText(retryAt) : undefined
}

export function timeText(ms: number): string {
  return new Date(Math.round(ms)).toISOString()
}

/** Shows one circuit breaker: its state, its window, which tenants see it and when the next trial may begin. */
export const showCircuit: Command = ({ operands: [name = ''], options }, io) =>
  withService(options, io, async (client) => {
    const circuit = await findCircuit(client, name, io.signal)
    if (circuit === undefined) throw new ToolError('NOT_FOUND', `There is no circuit ${JSON.stringify(name)}.`)
    if (options.json === true) await printJson(circuit, io)
    else {
      const head = ['tenant', 'state', 'since', 'faults', 'next trial']
      const rows = circuit.tenants.map((one) => [one.tenant, ...Object.values(factsOf(one))])
      const table = rows.length === 0 ? '' : tableText(head, rows, io)
      await io.out(factsText({ circuit: circuit.key, ...factsOf(circuit) }) + table)
    }
    return 0
  })

/** By its name, or by its tool when that has one circuit only; INPUT_INVALID when it has several. */
export async function findCircuit(client: Client, name: string, signal: AbortSignal): Promise<CircuitView | undefined> {
  const items = await client.circuits({ signal })
  const exact = items.find(({ key }) => key === name)
  const ofTool = items.filter(({ key }) => key.startsWith(`${name} @ `))
  if (exact === undefined && ofTool.length > 1) {
    const names = ofTool.map(({ key }) => JSON.stringify(key)).join(', ')
    throw new ToolError('INPUT_INVALID', `${name} has several circuits; name one of ${names}.`)
  }
  return exact ?? ofTool[0]
}

function factsOf(one: CircuitStateView) {
  const { state, since, calls, failures } = one
  return { state, since: timeText(since), faults: `${failures} of ${calls} calls`, 'next trial': nextTrial(one) }
}

/** Closes a circuit breaker, so that calls go through again. */
export const resetCircuit: Command = ({ operands: [name = ''], options }, io) =>
  withService(options, io, async (client) => {
    const { signal } = io
    // A circuit that only another process knows is not listed, and is reset by its full name.
    const key = (await findCircuit(client, name, signal))?.key ?? name
    const { reset } = await client.resetCircuit(key, { tenant: options.tenant, signal })
    if (options.json === true) await printJson({ key, reset }, io)
    else await io.out(reset ? `Closed ${safeLine(key)}.\n` : `${safeLine(key)} was closed already.\n`)
    return 0
  })
