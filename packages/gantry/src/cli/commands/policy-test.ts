import type { Client, PolicyAnswer } from '@gantry/client'
import { codes, type Identity, type JsonObject } from '@gantry/contract'
import type { Explanation } from '@gantry/core'
import type { Command, Io } from '../io.ts'
import { readJson } from '../json-operand.ts'
import type { OptionValues } from '../option-table.ts'
import { printJson } from '../print.ts'
import { withEither } from '../session.ts'
import { factsText } from '../table.ts'

type Answer = Explanation & Partial<Pick<PolicyAnswer, 'version'>>

/** Explains what would be decided on a call; the exit code is that of the call as far as the decision goes. */
export const execute: Command = async ({ operands: [tool = '', text], options }, io) => {
  const args = text === undefined ? undefined : ((await readJson('the arguments', text, io)) as JsonObject)
  const answer = await withEither<Answer>(options, io, {
    remote: (client) => askService(client, tool, args, options, io),
    local: (gantry, { options: { identity = owner } }) =>
      gantry.explain(tool, args, { identity: tested(options, identity), asker: identity, signal: io.signal }),
  })
  if (options.json === true) await printJson(answer, io)
  else await io.out(answerText(answer))
  return exits[answer.effect]
}

const exits = {
  allow: 0,
  ask: codes.APPROVAL_REQUIRED.exit,
  deny: codes.DENIED.exit,
  unavailable: codes.POLICY_UNAVAILABLE.exit,
} as const

const owner: Identity = { principal: 'local', tenant: 'local', permissions: ['*'] }

function askService(client: Client, tool: string, args: JsonObject | undefined, options: OptionValues, io: Io) {
  const { principal, tenant, permission: permissions, 'grant-role': roles, tools } = options
  return client.policy.test(tool, args, { principal, tenant, permissions, roles, tools, signal: io.signal })
}

/** Somebody else of whom nothing is said holds nothing. */
function tested(options: OptionValues, own: Identity): Identity {
  const { principal, tenant, permission, 'grant-role': roles, tools } = options
  const base = principal === undefined && tenant === undefined ? own : { permissions: [] }
  return {
    ...base,
    ...{ principal: principal ?? own.principal, tenant: tenant ?? own.tenant },
    permissions: permission ?? base.permissions,
    ...(roles === undefined ? {} : { roles }),
    ...(tools === undefined ? {} : { tools }),
  }
}

function answerText({ effect, reason, rule, missing, floor, approvers, tool, ...rest }: Answer): string {
  const some = (list: readonly string[] | undefined): string | undefined =>
    list === undefined || list.length === 0 ? undefined : list.join(', ')
  return factsText({
    ...{ decision: effect, reason, rule, tool },
    'missing permissions': some(missing),
    'least isolation': floor,
    approvers: some(approvers),
    'shown to the caller': rest.visible ? 'yes' : 'no',
    'arguments fit': rest.valid ? 'yes' : 'no; a call would end with INPUT_INVALID',
    version: rest.version,
  })
}
