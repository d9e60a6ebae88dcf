import { resolve } from 'node:path'
import type { Client, PolicyAnswer, PolicyDocument } from '@gantry/client'
import { codes, type Identity, type JsonObject, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { Explanation } from '@gantry/core'
import { readDataFile } from '@gantry/service/internal/config/read-data'
import { usageError } from '../errors.ts'
import type { Command, Io } from '../io.ts'
import { readJson } from '../json-operand.ts'
import type { OptionValues } from '../option-table.ts'
import { factsText, printJson } from '../print.ts'
import { withEither, withService } from '../session.ts'
import { safeJson } from '../terminal.ts'

type Answer = Explanation & Partial<Pick<PolicyAnswer, 'version'>>

/** Explains what would be decided on a call; the exit code is that of the call as far as the decision goes. */
export const testPolicy: Command = async ({ operands: [tool = '', text], options }, io) => {
  const args = text === undefined ? undefined : ((await readJson('the arguments', text, io)) as JsonObject)
  const answer = await withEither<Answer>(options, io, {
    remote: (client) => askService(client, tool, args, options, io),
    local: (gantry, { options: { identity = localOwner } }) =>
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

const localOwner: Identity = { principal: 'local', tenant: 'local', permissions: ['*'] }

function askService(client: Client, tool: string, args: JsonObject | undefined, options: OptionValues, io: Io) {
  const { key, principal, tenant, permission: permissions, 'grant-role': roles, tools } = options
  return client.policy.test(tool, args, { key, principal, tenant, permissions, roles, tools, signal: io.signal })
}

/** Another principal has no permission that the options do not grant. */
function tested(options: OptionValues, own: Identity): Identity {
  const { key, principal, tenant, permission, 'grant-role': roles, tools } = options
  if (key !== undefined) {
    throw usageError('--key', '--key asks the service, which has the keys; start it, or leave out --local.')
  }
  const base = principal === undefined && tenant === undefined ? own : { permissions: [] }
  return {
    ...base,
    principal: principal ?? own.principal,
    tenant: tenant ?? own.tenant,
    permissions: permission ?? base.permissions,
    ...(roles === undefined ? {} : { roles }),
    ...(tools === undefined ? {} : { tools }),
  }
}

function answerText({ effect, reason, rule, missing, floor, approvers, tool, ...rest }: Answer): string {
  const some = (list: readonly string[] | undefined): string | undefined =>
    list === undefined || list.length === 0 ? undefined : list.join(', ')
  return factsText({
    decision: effect,
    reason,
    rule,
    tool,
    'missing permissions': some(missing),
    'least isolation': floor,
    approvers: some(approvers),
    'shown to the caller': rest.visible ? 'yes' : 'no',
    'arguments fit': rest.valid ? 'yes' : 'no; a call would end with INPUT_INVALID',
    version: rest.version,
  })
}

/** Shows the policy that was set over the API, and the version that calls see. */
export const showPolicy: Command = ({ options }, io) =>
  withService(options, io, async (client) => {
    const view = await client.policy.read({ signal: io.signal })
    const { version, stored } = view
    if (options.json === true) await printJson(view, io)
    else if (stored === undefined)
      await io.out(`${factsText({ version })}No policy was set over the API; that of the configuration applies.\n`)
    else {
      const set = `version ${stored.version}, ${stored.createdAt} by ${stored.createdBy}`
      await io.out(`${factsText({ version, set })}${safeJson(stored.document, 2)}\n`)
    }
    return 0
  })

/** More than one request to the service can hold. */
const mostBytes = 4_194_304

/** The service checks its members. */
function isPolicy(value: unknown): value is PolicyDocument {
  return isObject(value)
}

/** Sets the rules of a file as the policy of the service, in addition to its configuration. */
export const setPolicy: Command = async ({ operands: [file = ''], options }, io) => {
  const document = await readDataFile(resolve(io.folder, file), mostBytes)
  if (!isPolicy(document)) {
    throw new ToolError('CONFIG_INVALID', `The file ${file} must hold { rules: [...], default }, as \`policy\` does.`)
  }
  return withService(options, io, async (client) => {
    const view = await client.policy.set(document, { signal: io.signal })
    if (options.json === true) await printJson(view, io)
    else await io.out(factsText({ version: view.version, set: `version ${view.stored?.version}` }))
    return 0
  })
}
