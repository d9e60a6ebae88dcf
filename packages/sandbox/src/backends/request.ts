import {
  type Issue,
  type JsonObject,
  type SandboxCredential,
  type SandboxedBinding,
  type SandboxFile,
  type SandboxLimits,
  type SandboxNetwork,
  type Tool,
  ToolError,
} from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { BackendCall, BackendContext } from '@gantry/core/internal/backends/backend'
import type { Egress } from '@gantry/core/internal/egress/egress'
import { quote } from '@gantry/core/internal/ids/quote'
import { anyText, type Check, mapOf, oneOf, text } from '@gantry/core/internal/options/option'
import { type OptionsShape, optionsCheck, refuse } from '@gantry/core/internal/options/options'
import type { Confinement, ProgramTraits, SandboxRequest } from '@gantry/core/internal/runtimes/runtimes'
import { didYouMean } from '@gantry/core/internal/search/near'
import { allowIssues, outsideOf, overlap } from '../egress-proxy/origins.ts'
import { checkFiles } from '../languages/file-path.ts'
import type { Languages } from '../languages/languages.ts'
import {
  type CodeArguments,
  codeProgram,
  isModuleLanguage,
  moduleProgram,
  type ShellArguments,
  shellProgram,
} from '../languages/program.ts'
import { refuseForbidden } from './egress-refusals.ts'
import { withArtifacts } from './files.ts'

/** Limits of collected files: small when they are inline, larger when they become artifacts. */
export const collected = { inline: { files: 64, bytes: 1_048_576 }, kept: { files: 64, bytes: 33_554_432 } } as const

/** The sandbox request of a call: from its arguments for the built-in tools, from its binding for all others. */
export async function requestOf(
  plan: SandboxedPlan,
  { id, args }: BackendCall,
  context: BackendContext,
  egress: Egress | undefined,
  languages: Languages,
): Promise<SandboxRequest> {
  const asked =
    plan.takes === undefined ? fromBinding(plan, args, languages) : await fromArguments(plan, args, context, languages)
  return { ...asked, ...(await egressOf(plan, { id, args }, asked.network, context, egress)) }
}

/** The demands of a call on its runtime: enough to select one, without its files and secrets. */
export function demandsOf(
  plan: SandboxedPlan,
  { id, args }: Pick<BackendCall, 'id' | 'args'>,
  identity: BackendContext['identity'],
  egress: Egress | undefined,
  languages: Languages,
): { readonly program: ProgramTraits; readonly confinement: Confinement } {
  const given = args as JsonObject & Arguments
  const confinement = plan.takes === undefined ? boundBy(plan) : askedBy(given)
  const { network = 'none' } = confinement
  if (plan.egress !== undefined && plan.takes !== undefined && network !== 'none')
    checkWithin(network.allow, plan.egress, id)
  const dial = egress === undefined ? {} : { dial: { egress, owner: id, tenant: identity.tenant } }
  return { program: kindOf(plan, given, languages), confinement: { ...confinement, ...dial } }
}

function kindOf(plan: SandboxedPlan, given: CodeArguments & ShellArguments, languages: Languages): ProgramTraits {
  if (plan.takes !== undefined && plan.takes !== 'code') return { kind: shellProgram(given).kind }
  if (plan.command !== undefined) return { kind: 'argv' }
  if (plan.script !== undefined) return { kind: 'script' }
  const { language = '', code = '' } = plan.takes === undefined ? plan : given
  if (isModuleLanguage(language)) return { kind: 'wasi' }
  const program = codeProgram({ language, code }, languages)
  return { kind: program.kind, ...(program.kind === 'code' ? { language: program.language } : {}) }
}

/** The caller's program, with the caller's files, environment and limits. */
async function fromArguments(
  { takes }: SandboxedPlan,
  args: JsonObject,
  context: BackendContext,
  languages: Languages,
): Promise<SandboxRequest> {
  const given = args as JsonObject & Arguments
  const { stdin, files } = given
  const handed = files === undefined ? undefined : checkFiles(await withArtifacts(files, context))
  return {
    ...(takes === 'code' ? codeOf(given, handed, languages) : { program: shellProgram(given), ...filesOf(handed) }),
    collect: context.keepsFiles ? collected.kept : collected.inline,
    ...(stdin === undefined ? {} : { stdin: bytesOf(stdin) }),
    ...askedBy(given),
  }
}

function askedBy({ profile, runtime, limits, network, deterministic }: Arguments): Confinement {
  return {
    ...(profile === undefined ? {} : { profile }),
    ...(runtime === undefined ? {} : { runtime }),
    ...(limits === undefined ? {} : { limits }),
    ...(network === undefined ? {} : { network }),
    ...(deterministic === undefined || deterministic === false ? {} : { deterministic: fixedBy(deterministic) }),
  }
}

/** A program in a language, or the WASI module among its files that `code` names. */
function codeOf(given: CodeArguments, files: HandedFiles | undefined, languages: Languages): ProgramAndFiles {
  if (!isModuleLanguage(given.language)) return { program: codeProgram(given, languages), ...filesOf(files) }
  const { [given.code]: module, ...others } = Object.fromEntries(files ?? [])
  return { program: moduleProgram(given.code, module), ...filesOf(new Map(Object.entries(others))) }
}

type HandedFiles = ReadonlyMap<string, Uint8Array>
type ProgramAndFiles = Pick<SandboxRequest, 'program' | 'files'>

function filesOf(files: HandedFiles | undefined): Pick<SandboxRequest, 'files'> {
  return files === undefined || files.size === 0 ? {} : { files }
}

/** Already validated against the tool's input schema. */
interface Arguments extends CodeArguments, ShellArguments {
  readonly stdin?: string
  readonly files?: { readonly [path: string]: SandboxFile }
  readonly profile?: string
  readonly runtime?: string
  readonly limits?: Partial<SandboxLimits>
  readonly network?: SandboxNetwork
  readonly deterministic?: Deterministic | false
}

/** Seed and time of a deterministic run; `now` in milliseconds since 1970 or in RFC 3339. */
type Deterministic = true | { readonly seed?: number; readonly now?: number | string }

/** 2000-01-01T00:00:00Z, for runs without `now`. */
const usualNowMs = 946_684_800_000
/** The last millisecond of the year 9999, beyond which Python has no dates. */
const latestMs = 253_402_300_799_999

const rfc3339 = /^\d{4}-\d\d-\d\dt\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:z|[+-]\d\d:\d\d)$/i

function fixedBy(given: Deterministic): { readonly seed: number; readonly nowMs: number } {
  const { seed = 0, now = usualNowMs } = given === true ? {} : given
  const nowMs = typeof now === 'number' ? now : rfc3339.test(now) ? Date.parse(now) : Number.NaN
  if (Number.isInteger(nowMs) && nowMs >= 0 && nowMs <= latestMs) return { seed, nowMs }
  const issues = [
    {
      path: '/deterministic/now',
      message: 'must be milliseconds since 1970 or an RFC 3339 time such as 2026-01-01T00:00:00Z, from 1970 to 9999',
    },
  ]
  throw new ToolError('INPUT_INVALID', 'Invalid time at /deterministic/now.', {
    details: { issues },
  })
}

/** The tool's program; the caller's arguments are only data on its stdin. */
function fromBinding(plan: SandboxedPlan, args: JsonObject, languages: Languages): SandboxRequest {
  const { files, env } = plan
  return {
    ...programOf(plan, files === undefined ? undefined : checkFiles(files), languages),
    stdin: bytesOf(JSON.stringify(args)),
    ...(env === undefined ? {} : { env }),
    ...boundBy(plan),
  }
}

function boundBy({ profile, runtime, egress, limits }: SandboxedPlan): Confinement {
  return {
    ...(profile === undefined ? {} : { profile }),
    ...(runtime === undefined ? {} : { runtime }),
    ...(limits === undefined ? {} : { limits }),
    ...(egress === undefined || egress.length === 0 ? {} : { network: { allow: egress } }),
  }
}

function programOf(
  { command, script, code, language }: SandboxedPlan,
  files: HandedFiles | undefined,
  languages: Languages,
): ProgramAndFiles {
  if (command !== undefined) return { program: { kind: 'argv', argv: command }, ...filesOf(files) }
  if (script !== undefined) return { program: { kind: 'script', script }, ...filesOf(files) }
  return codeOf({ language: language ?? '', code: code ?? '' }, files, languages)
}

function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

const shortestValue = 8

type Dial = NonNullable<SandboxRequest['dial']>
type Credentials = NonNullable<SandboxedPlan['credentials']>

/**
 * The egress of one call's sandbox: its origins, within those of its tool, and the secrets behind its placeholders,
 * resolved for this caller and from then on redacted from everything that leaves the call.
 * - Errors: EGRESS_DENIED for origins that the tool does not name or that no rule allows, INPUT_INVALID for credentials that are not granted or
 * that match no reachable origin, SECRET_UNAVAILABLE.
 */
export async function egressOf(
  plan: SandboxedPlan,
  { id, args }: Pick<BackendCall, 'id' | 'args'>,
  network: SandboxNetwork = 'none',
  context: Pick<BackendContext, 'secret' | 'identity'>,
  egress: Egress | undefined,
): Promise<{ readonly dial?: Dial }> {
  const granted = plan.takes === undefined ? (plan.credentials ?? {}) : namedOf(plan.credentials ?? {}, args)
  const allow = network === 'none' ? [] : network.allow
  if (plan.egress !== undefined && plan.takes !== undefined) checkWithin(allow, plan.egress, id)
  if (plan.takes !== undefined) checkReach(granted, allow)
  if (egress === undefined) return {}
  const dial = { egress, owner: id, tenant: context.identity.tenant }
  await refuseForbidden(egress, allow, { owner: id, tenant: context.identity.tenant })
  if (allow.length === 0 || Object.keys(granted).length === 0) return { dial }
  return { dial: { ...dial, credentials: await fetched(granted, context) } }
}

/** The credentials that the call names, out of those granted to its tool: an argument never names a secret. */
function namedOf(granted: Credentials, { grants = [] }: JsonObject): Credentials {
  const names = Array.isArray(grants) ? grants : []
  const wanted = names.map((name, index) => {
    const credential = typeof name === 'string' && Object.hasOwn(granted, name) ? granted[name] : undefined
    if (credential !== undefined) return [String(name), credential] as const
    const known = Object.keys(granted)
    const others = known.length === 0 ? 'the tool is granted none' : `the tool is granted ${known.join(', ')}`
    throw invalid(
      `/grants/${index}`,
      `${quote(String(name))} is not granted${didYouMean(String(name), known)}; ${others}`,
    )
  })
  return Object.fromEntries(wanted)
}

/** A tool's own list narrows the origins that its callers may request. */
function checkWithin(allow: readonly string[], egress: readonly string[], id: string): void {
  const [outside] = outsideOf(allow, egress)
  if (outside === undefined) return
  const known = `The origin ${outside} is not in the egress of the tool, which is ${egress.join(', ') || 'empty'}`
  const list = builtIn.test(id) ? 'sandboxNetwork.allow' : 'the egress of the tool'
  throw new ToolError('EGRESS_DENIED', `${known}. Add "${outside}" to ${list}.`)
}

/** Tools that get their egress from `sandboxNetwork` of the configuration. */
const builtIn = /^(?:code:run|code:session|shell:run)(?::|$)/

/** A credential for unreachable hosts is a mistake that the program would only see as a failed login. */
function checkReach(granted: Credentials, allow: readonly string[]): void {
  for (const [name, { hosts }] of Object.entries(granted)) {
    if (overlap(hosts, allow)) continue
    throw invalid('/network', `must allow ${hosts.join(' or ')}, which ${name} is for`)
  }
}

function fetched(
  granted: Credentials,
  context: Pick<BackendContext, 'secret'>,
): Promise<NonNullable<Dial['credentials']>> {
  const all = Object.entries(granted).map(async ([variable, { secret, hosts, in: places }]) => {
    const value = await context.secret(secret)
    // A control character could end one header and start another.
    if (/\p{Cc}/u.test(value)) {
      throw new ToolError('SECRET_UNAVAILABLE', `The secret ${secret} has a character that no header can carry.`)
    }
    // A shorter secret would match unrelated text in responses by chance.
    if (value.length < shortestValue) {
      throw new ToolError('SECRET_UNAVAILABLE', `The secret ${secret} has fewer than ${shortestValue} characters.`)
    }
    return { variable, value: () => value, hosts, ...(places === undefined ? {} : { in: places }) }
  })
  return Promise.all(all)
}

function invalid(path: string, message: string): ToolError {
  return new ToolError('INPUT_INVALID', `The call is wrong: ${path} ${message}.`, {
    details: { issues: [{ path, message }] },
  })
}

/** A validated binding: exactly one kind of program, or the arguments as the program. */
export type SandboxedPlan = SandboxedBinding & {
  readonly profile?: string
  readonly runtime?: string
  readonly egress?: readonly string[]
}

const origins: Check = {
  schema: { type: 'array', items: anyText },
  fits: (value) => originIssues(value, '').length === 0,
  issues: originIssues,
}

/** The members of a credential. */
export const credentialMembers: OptionsShape<SandboxCredential>['members'] = {
  secret: text(),
  hosts: origins,
  in: { type: 'array', minItems: 1, items: oneOf('header', 'query', 'body') },
}
export const credentialNoun = 'an option of a credential'

const credential = optionsCheck<SandboxCredential>({
  members: credentialMembers,
  required: ['secret', 'hosts'],
  noun: credentialNoun,
})

const bindingCheck = optionsCheck<SandboxedBinding>({
  members: {
    kind: oneOf('sandboxed'),
    name: anyText,
    command: { type: 'array', minItems: 1, items: anyText, description: 'a list of strings that is not empty' },
    script: anyText,
    code: anyText,
    language: anyText,
    takes: oneOf('code', 'shell'),
    files: { type: 'object', description: 'an object of files' },
    env: { type: 'object', additionalProperties: anyText, description: 'an object of strings' },
    credentials: credentialsOf(credential),
    limits: { type: 'object', description: 'an object of limits' },
    output: oneOf('auto', 'json', 'text'),
  },
  noun: 'an option of a sandboxed tool',
})

/** Reads a tool's binding; throws CONFIG_INVALID with every issue. */
export function readBinding(binding: { readonly [option: string]: unknown }, tool: Tool): SandboxedPlan {
  const issues = [...bindingCheck.issues(binding, ''), ...combinationIssues(binding)]
  if (tool.secrets !== undefined && tool.secrets.length > 0) {
    const message = 'cannot be given to a program in a sandbox, which could keep them; name them in credentials'
    issues.push({ path: '/secrets', message })
  }
  // A call of a built-in tool names its own origins, within the egress of the tool.
  const reach = binding.takes === undefined ? (tool.egress ?? []) : tool.egress
  if (issues.length === 0) issues.push(...reachIssues(binding.credentials, '/credentials', reach))
  refuse(`sandboxed binding of ${tool.namespace}:${tool.name}`, issues)
  const { profile, runtime, egress } = tool
  return {
    ...(binding as SandboxedBinding),
    ...(profile === undefined ? {} : { profile }),
    ...(runtime === undefined ? {} : { runtime }),
    ...(egress === undefined ? {} : { egress }),
  }
}

/** A binding has exactly one program, code has a language, and no variable is set by both `env` and `credentials`. */
function combinationIssues(binding: { readonly [option: string]: unknown }): Issue[] {
  const { command, script, code, language, takes, env, credentials } = binding
  const issues: Issue[] = []
  if ([command, script, code, takes].filter((program) => program !== undefined).length !== 1) {
    issues.push({ path: '/command', message: 'or script, or code is required, and only one of them' })
  }
  if ((code === undefined) !== (language === undefined)) {
    issues.push({ path: '/language', message: 'and code require each other' })
  }
  if (!isObject(env) || !isObject(credentials)) return issues
  const twice = Object.keys(credentials).filter((name) => Object.hasOwn(env, name))
  return [...issues, ...twice.map((name) => ({ path: `/env/${name}`, message: 'is a credential too' }))]
}

const most = 32

/** The check of credentials by the name of their variable. */
export function credentialsOf(each: Check): Check {
  const named = mapOf(each, (name) =>
    /^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name) ? undefined : 'is not the name of a variable',
  )
  const issues = (value: unknown, path: string): readonly Issue[] => {
    const tooMany = isObject(value) && Object.keys(value).length > most
    return [...(tooMany ? [{ path, message: `must not be more than ${most}` }] : []), ...named.issues(value, path)]
  }
  return { schema: named.schema, fits: (value) => issues(value, '').length === 0, issues }
}

function originIssues(value: unknown, path: string): readonly Issue[] {
  return Array.isArray(value) && value.length === 0
    ? [{ path, message: 'must be a list of origins' }]
    : allowIssues(value, path)
}

/** Issues of valid credentials whose hosts are not in the egress of their tool, where that is known. */
export function reachIssues(credentials: unknown, at: string, egress: readonly string[] | undefined): Issue[] {
  if (egress === undefined || !isObject(credentials)) return []
  return Object.entries(credentials).flatMap(([name, each]) => {
    const hosts = isObject(each) && Array.isArray(each.hosts) ? each.hosts : []
    const [outside] = outsideOf(hosts, egress)
    if (outside === undefined) return []
    const message = `names ${outside}, which is not in the tool's egress, so that it cannot be reached`
    return [{ path: `${at}/${name}/hosts`, message }]
  })
}
