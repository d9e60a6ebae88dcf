import type { CircuitStateView, CircuitView } from '@gantry/client'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { tableText } from '../table.ts'

/** Lists the circuit breakers of a service, those that are not closed first. */
export const execute: Command = ({ options }, io) =>
  withService(options, io, async (client) => {
    const items = await client.circuits({ signal: io.signal })
    if (options.json === true) await printJson({ items }, io)
    else if (items.length === 0) await io.out('No circuit: no call has said anything about a backend yet.\n')
    else {
      const rows = items
        .toSorted((one, other) => Number(isWell(one)) - Number(isWell(other)))
        .map((one) => [one.key, one.state, `${one.failures}/${one.calls}`, seenBy(one), nextTrial(one)])
      await io.out(tableText(['circuit', 'state', 'faults', 'seen by', 'next trial'], rows, io))
    }
    return 0
  })

/** The tenants that find the backend at fault. */
function seenBy({ tenants }: CircuitView): string {
  return tenants.flatMap(({ tenant, state }) => (state === 'closed' ? [] : [tenant])).join(', ')
}

function isWell(circuit: CircuitView): boolean {
  return circuit.state === 'closed' && seenBy(circuit) === ''
}

/** When the next trial may begin, while there is one to wait for. */
export function nextTrial({ state, retryAt }: CircuitStateView): string | undefined {
  if (state === 'trial') return 'now'
  return state === 'open' && retryAt !== undefined ? timeText(retryAt) : undefined
}

export function timeText(ms: number): string {
  return new Date(Math.round(ms)).toISOString()
}
