import { randomInt } from 'node:crypto'
import { type Result, ToolError } from '@gantry/contract'
import type { Executor, InnerNames, InnerOutcome, InnerRequest, ProgramJournal } from '@gantry/core'
import type { InnerCharges } from './inner-charges.ts'
import { isProgramTool } from './program-tool.ts'

export interface ChargedPorts {
  readonly executor: Pick<Executor, 'catalog'>
  readonly charges: InnerCharges
}

/**
 * The journal of a program that is a step of a chain, as part of the names of that step; nothing for other tools. It keeps
 * nothing, because such a program is made whole or not at all, as its effect class says. It is there so that all that the
 * program calls, however deep within, counts for the limits of whoever asked for the chain.
 */
export function programOf(ports: ChargedPorts, tool: string, callId: string): { readonly program?: ProgramJournal } {
  return isProgramTool(ports.executor.catalog, tool) ? { program: chargedProgram(ports, callId) } : {}
}

function chargedProgram(ports: ChargedPorts, callId: string): ProgramJournal {
  return {
    seed: randomInt(2 ** 31),
    startedMs: Date.now(),
    outcomes: [],
    async settle(ask, make) {
      return { outcome: await outcomeOf(ask, `${callId}.${ask.number}`, make, ports), atMs: Date.now() }
    },
  }
}

async function outcomeOf(
  { kind, tool, signal }: InnerRequest,
  callId: string,
  make: (names?: InnerNames) => Promise<InnerOutcome>,
  ports: ChargedPorts,
): Promise<InnerOutcome> {
  if (kind === 'chain') return make({ around: (step, call) => chargedStep({ ...step, callId }, call, ports) })
  if (tool === undefined) return make()
  const result = await ports.charges.call({ callId, tool, signal }, async () => {
    const made = await make({ callId, ...programOf(ports, tool, callId) })
    if (made.kind === 'result') return made.result
    throw new ToolError('INTERNAL', `What came of ${callId} is no Result.`)
  })
  return { kind: 'result', result }
}

/** A call of a chain within the program. */
function chargedStep(
  { tool, signal, callId }: { readonly tool: string; readonly signal: AbortSignal; readonly callId: string },
  call: (names?: Pick<InnerNames, 'program'>) => Promise<Result>,
  ports: ChargedPorts,
): Promise<Result> {
  return ports.charges.call({ callId, tool, signal }, () => call(programOf(ports, tool, callId)))
}
