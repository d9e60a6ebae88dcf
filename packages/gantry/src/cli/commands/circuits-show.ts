import type { CircuitStateView, CircuitView, Client } from '@gantry/client'
import { ToolError } from '@gantry/contract'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { factsText, tableText } from '../table.ts'
import { nextTrial, timeText } from './circuits-ls.ts'

/** Shows one circuit breaker: its state, its window, which tenants see it and when the next trial may begin. */
export const execute: Command = ({ operands: [name = ''], options }, io) =>
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
