import { dirname, join, resolve } from 'node:path'
import type { Issue, JsonObject } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { type Backend, createEgress, type DefinedTool, defineTool, type EgressAllow, filePins } from '@gantry/core'
import { toolMatcher } from '@gantry/core/internal/ids/tool-pattern'
import { copyJson, JsonError } from '@gantry/core/internal/json/plain'
import {
  type BuiltinOptions,
  builtinTools,
  createExecutor,
  type ExecutorOptions,
  loadToolsFolder,
  type RefusedTool,
  type RuntimeOptions,
  type ToolsFolder,
  type ToolsFolderMemory,
} from '@gantry/tools'
import { authenticationIssues } from './authentication-settings.ts'
import { brokerIssues } from './broker-settings.ts'
import { checkCallback, webhookIssues } from './callback-target.ts'
import type { ConfigDocument, ConfigRequest, LoadedConfig, ToolsFolderLocation } from './config.ts'
import { type Overrides, override, wrongEnvironment } from './environment.ts'
import { importModule } from './import-module.ts'
import { liveKeys, makeBackends, separate } from './live-parts.ts'
import { packageOptions } from './package-options.ts'
import { configError, isToolError, throwingValue } from './problem.ts'
import { resolveOurPackages } from './read-module.ts'
import { configIssues, readDocument } from './schema.ts'
import { secretSources, storeOptions } from './secret-sources.ts'
import { addressIssues, dataFolder, executorPart, serviceSettings } from './service-settings.ts'
import { sharedDigest } from './shared-settings.ts'

/** Checks a configuration merged with the environment and makes executor options of it; throws with all problems. */
export async function composeConfig(
  file: string,
  content: unknown,
  overrides: Overrides,
  request: Omit<ConfigRequest, 'file'>,
): Promise<Omit<LoadedConfig, 'warnings'>> {
  const { environment, signal, omit } = request
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    throw configError(file, `The configuration ${file} must be an object.`, [])
  }
  const issues: Issue[] = [...overrides.issues]
  const { data, live, ...lists } = separate(membersOf(content, file, omit), file, issues)
  const unchecked = override(plain(data, issues), overrides)
  issues.push(...configIssues(unchecked), ...brokerIssues(unchecked))
  issues.push(
    ...authenticationIssues(unchecked, dirname(file)),
    ...tenantIssues(unchecked),
    ...addressIssues(unchecked),
  )
  const backends = await makeBackends(lists.backends, file, issues)
  const tools = [...live.tools, ...dataTools(lists.tools, issues)]
  issues.push(...(await partIssues(unchecked, backends, issues)))
  issues.push(...(await callbackIssues(unchecked, issues)), ...(await webhookIssues(unchecked, issues)))
  const document = issues.length > 0 ? undefined : readDocument(unchecked)
  if (document === undefined) {
    throw configError(file, problemText(file, issues.length, overrides), issues)
  }
  const { sandboxNetwork, httpFetch, secrets, pins } = document
  const folder = dirname(file)
  const place = dataFolder(folder, environment)
  const store = storeOptions(document.secretStore, folder, place, environment)
  const sources = secretSources({ secrets, store, folder, environment })
  const toolsFolder = await openToolsFolder(document.toolsFolder, {
    folder,
    tools,
    backends,
    signal,
    fresh: request.fresh === true,
    memory: request.folderMemory,
  })
  const all = [...tools, ...(toolsFolder?.tools ?? [])]
  return {
    file,
    document,
    data: place,
    ...(toolsFolder === undefined ? {} : { toolsFolder }),
    ...(store === undefined ? {} : { secretStore: store }),
    service: serviceSettings(document, place, folder),
    shared: sharedDigest(document),
    builtins: document.builtins !== false,
    builtinOptions: {
      ...(sandboxNetwork === undefined ? {} : { sandboxNetwork }),
      ...(httpFetch === undefined ? {} : { httpFetch }),
    },
    knowledge: { ...document.knowledge, ...live.knowledge },
    demo: document.demo === true,
    ...(document.runtimeServer === undefined ? {} : { runtimeServer: document.runtimeServer }),
    options: {
      ...executorPart(document),
      runtimes: runtimeOptions(document, folder, environment),
      pins: filePins(pins === undefined ? join(place, 'pins.json') : resolve(folder, pins)),
      ...(sources === undefined ? {} : { secrets: sources }),
      ...(all.length === 0 ? {} : { tools: all }),
      ...(backends.length === 0 ? {} : { backends }),
      ...(live.policy === undefined ? {} : { policy: live.policy }),
      ...(live.secrets === undefined ? {} : { secrets: live.secrets }),
    },
  }
}

/** Reads each key once, so that a getter that throws can be named; known keys of a class instance are read too. */
function membersOf(
  content: object,
  file: string,
  omit: ReadonlySet<string> = new Set(),
): { readonly [key: string]: unknown } {
  const keys = new Set([...Object.keys(content), ...liveKeys])
  const entries = [...keys].flatMap((key): [string, unknown][] => {
    if (omit.has(`/${key}`)) return []
    try {
      return [[key, without(Reflect.get(content, key), `/${key}/`, omit)]]
    } catch (error) {
      throw throwingValue(file, `/${key}`, error)
    }
  })
  return Object.fromEntries(entries)
}

/** Plain data without the members that are left out. */
function without(value: unknown, at: string, omit: ReadonlySet<string>): unknown {
  const isPlain = isObject(value) && Object.getPrototypeOf(value) === Object.prototype
  if (omit.size === 0 || !isPlain) return value
  return Object.fromEntries(Object.entries(value).filter(([key]) => !omit.has(`${at}${key}`)))
}

/** Does not attribute problems of the environment to the file. */
function problemText(file: string, count: number, overrides: Overrides): string {
  if (count === overrides.issues.length) return wrongEnvironment
  return `The configuration ${file} has ${count === 1 ? 'a problem' : `${count} problems`}.`
}

function plain(data: object, issues: Issue[]): JsonObject {
  try {
    const copy = copyJson(data)
    return isObject(copy) ? copy : {}
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    issues.push({ path: error.path, message: error.message })
    return {}
  }
}

/** Tools of a JSON or YAML file: definitions without a function, which run on the backends that they name. */
export function dataTools(list: readonly unknown[], issues: Issue[]): readonly DefinedTool[] {
  return list.flatMap((definition, index) => {
    try {
      return [defineTool(definition as Parameters<typeof defineTool>[0])]
    } catch (error) {
      if (!isToolError(error)) throw error
      issues.push({ path: `/tools/${index}`, message: error.message })
      return []
    }
  })
}

/** Problems of `tenants` that the schema does not find. */
export function tenantIssues({ tenants }: JsonObject): Issue[] {
  const issues: Issue[] = []
  for (const [tenant, settings] of Object.entries(isObject(tenants) ? tenants : {})) {
    const at = `/tenants/${tenant.replaceAll('~', '~0').replaceAll('/', '~1')}/tools`
    const tools = isObject(settings) ? settings.tools : undefined
    if (Array.isArray(tools) && tools.length > 0 && tools.every(isText)) toolMatcher(tools, at, issues)
  }
  return issues
}

/**
 * Problems of callbacks that the schema does not find: invalid origins, and callbacks of tenants that would be refused
 * with every call. Parts with known problems are skipped.
 */
export async function callbackIssues(document: JsonObject, known: readonly Issue[]): Promise<Issue[]> {
  const isWrong = (at: string): boolean =>
    known.some(({ path }) => `${path}/`.startsWith(`${at}/`) || path === '/egress')
  if (['/service/callbackOrigins', '/service/callbacks', '/egress/allow'].some(isWrong)) return []
  const { service, egress: allowed } = readDocument({ ...pick(document, 'service'), ...pick(document, 'egress') }) ?? {}
  const { callbackOrigins: origins, callbacks = {} } = service ?? {}
  if (origins !== undefined) {
    const issues = ruleIssues(origins)
    if (issues.length > 0) return issues
  }
  const { allow } = allowed ?? {}
  const egress = createEgress(allow === undefined ? {} : { allow })
  const found: Issue[] = []
  for (const [tenant, url] of Object.entries(callbacks)) {
    const path = `/service/callbacks/${tenant.replaceAll('~', '~0').replaceAll('/', '~1')}`
    await checkCallback(url, origins, egress).catch((error: unknown) => {
      if (!isToolError(error)) throw error
      found.push({ path, message: error.message })
    })
  }
  await egress.close()
  return found
}

/** A document with only this member. */
function pick(document: JsonObject, key: string): JsonObject {
  return document[key] === undefined ? {} : { [key]: document[key] }
}

function ruleIssues(allow: EgressAllow): Issue[] {
  try {
    createEgress({ allow })
    return []
  } catch (error) {
    if (!isToolError(error)) throw error
    const issues = error.details?.issues ?? [{ path: '', message: error.message }]
    return issues.map((issue) => ({
      ...issue,
      path: `/service/callbackOrigins${issue.path.replace(/^\/egress\/allow/, '')}`,
    }))
  }
}

/** Keys of a configuration that the executor checks. */
const parts = ['policy', 'egress', 'runtimes', 'engines'] as const

/**
 * Problems that an executor finds in the keys that it checks. Each is tried alone, so that one problem hides no other.
 * Keys with known problems are skipped.
 */
export async function partIssues(
  document: JsonObject,
  backends: readonly Backend[],
  known: readonly Issue[],
): Promise<Issue[]> {
  const isSound = (key: string): boolean =>
    document[key] !== undefined && !known.some(({ path }) => `${path}/`.startsWith(`/${key}/`))
  const found: Issue[] = []
  for (const key of parts) {
    if (isSound(key)) found.push(...(await trial(`/${key}`, { [key]: document[key] })))
  }
  if (isSound('profiles')) {
    const { profiles = {} } = readDocument(pick(document, 'profiles')) ?? {}
    // A profile may name the runtimes that are configured; what is wrong with those themselves was found above.
    const runtimes = found.some(({ path }) => path.startsWith('/runtimes')) ? {} : configuredRuntimes(document)
    const issues = await trial('/runtimes', { runtimes: { ...runtimes, profiles } })
    found.push(...issues.map((issue) => ({ ...issue, path: issue.path.replace(/^\/runtimes/, '') })))
  }
  for (const key of ['sandboxNetwork', 'httpFetch'] as const) {
    if (isSound(key)) found.push(...builtinIssues(key, { [key]: document[key] }))
  }
  const standIns = backends.map(standIn)
  if (standIns.length > 1) found.push(...(await trial('/backends', { backends: standIns })))
  const { safeguards } = document
  if (isSound('safeguards') && isObject(safeguards)) found.push(...(await safeguardIssues(safeguards, standIns)))
  return found
}

function configuredRuntimes(document: JsonObject): RuntimeOptions {
  const { docker, containerd, firecracker, gvisor, kata, kubernetes, qemu, proxmox, remote, temporal } =
    readDocument(pick(document, 'runtimes'))?.runtimes ?? {}
  return {
    ...(docker === undefined ? {} : { docker }),
    ...(containerd === undefined ? {} : { containerd }),
    ...(gvisor === undefined ? {} : { gvisor }),
    ...(kata === undefined ? {} : { kata }),
    ...(kubernetes === undefined ? {} : { kubernetes }),
    ...(firecracker === undefined ? {} : { firecracker }),
    ...(qemu === undefined ? {} : { qemu }),
    ...(proxmox === undefined ? {} : { proxmox }),
    ...(remote === undefined ? {} : { remote }),
    ...(temporal === undefined ? {} : { temporal }),
  }
}

/** Problems of options of the built-in tools. */
function builtinIssues(key: keyof BuiltinOptions, options: BuiltinOptions): readonly Issue[] {
  try {
    builtinTools(options)
    return []
  } catch (error) {
    if (!isToolError(error)) throw error
    return error.details?.issues ?? [{ path: `/${key}`, message: error.message }]
  }
}

/** A backend with only a name: a trial must not attach the real backends, which can be attached once. */
function standIn({ kind, name }: Pick<Backend, 'kind' | 'name'>): Backend {
  return { kind, name, call: () => undefined }
}

/** Tries each safeguard alone, and each of each backend, because the executor does not report its path. */
async function safeguardIssues(
  { backends: own = {}, ...common }: JsonObject,
  list: readonly Backend[],
): Promise<Issue[]> {
  const unique = [...new Map(list.map((backend) => [`${backend.kind}:${backend.name}`, backend])).values()]
  const backends = unique.length > 0 ? unique : [standIn({ kind: 'any', name: 'any' })]
  const tryAll = async (at: string, given: unknown, place: (options: object) => object): Promise<readonly Issue[]> => {
    if (!isObject(given)) return [{ path: at, message: 'must be an object' }]
    const whole = await trial(at, { safeguards: place({}), backends })
    if (whole.length > 0) return whole
    const found: Issue[] = []
    for (const [key, value] of Object.entries(given)) {
      found.push(...(await trial(`${at}/${key}`, { safeguards: place({ [key]: value }), backends })))
    }
    return found
  }
  const found = [...(await tryAll('/safeguards', common, (options) => options))]
  if (!isObject(own)) return [...found, { path: '/safeguards/backends', message: 'must be an object' }]
  for (const [key, options] of Object.entries(own)) {
    found.push(...(await tryAll(`/safeguards/backends/${key}`, options, (one) => ({ backends: { [key]: one } }))))
  }
  return found
}

/** Makes an executor of these options only; paths that are relative to the option are prefixed with `at`. */
async function trial(at: string, options: ExecutorOptions): Promise<readonly Issue[]> {
  try {
    await createExecutor(options).close()
    return []
  } catch (error) {
    if (!isToolError(error)) throw error
    const issues = error.details?.issues ?? []
    const top = `/${at.split('/')[1]}`
    if (issues.length === 0) return [{ path: at, message: error.message }]
    return issues.map((issue) =>
      `${issue.path}/`.startsWith(`${top}/`) ? issue : { ...issue, path: `${at}${issue.path}` },
    )
  }
}

/** Options of runtimes: `runtimes` and `profiles` of the file, overridden by the environment. */
export function runtimeOptions(
  { runtimes = {}, profiles }: Pick<ConfigDocument, 'runtimes' | 'profiles'>,
  folder: string,
  environment: NodeJS.ProcessEnv,
): RuntimeOptions {
  const { SANDBOX_ROOT: root } = environment
  const named = root || runtimes.root
  const { remote, proxmox } = runtimes
  const at = (file: string): string => resolve(folder, file)
  return {
    ...runtimes,
    ...packageOptions(runtimes, folder, environment),
    ...(remote === undefined ? {} : { remote: remote.map((host) => withTlsFiles(host, at)) }),
    ...(proxmox?.caFile === undefined ? {} : { proxmox: { ...proxmox, caFile: at(proxmox.caFile) } }),
    ...(profiles === undefined ? {} : { profiles }),
    ...(named === undefined ? {} : { root: resolve(folder, named) }),
  }
}

type RemoteHostSettings = NonNullable<RuntimeOptions['remote']>[number]

/** Files of a host, relative to the configuration like every other file in it. */
function withTlsFiles(host: RemoteHostSettings, at: (file: string) => string): RemoteHostSettings {
  if (host.tls === undefined) return host
  const files = Object.entries(host.tls).map(([name, file]) => [name, at(file)] as const)
  return { ...host, tls: Object.fromEntries(files) }
}

interface ToolsFolderAround {
  /** Folder of the configuration. */
  readonly folder: string
  /** Tools of the configuration, which tools of the folder may not override. */
  readonly tools: readonly DefinedTool[]
  readonly backends: readonly Backend[]
  /** Results of earlier loads. */
  readonly memory: ToolsFolderMemory | undefined
  readonly fresh: boolean
  readonly signal: AbortSignal
}

/** Loads the folder of tools that a configuration names; undefined when it names none. Throws CONFIG_INVALID. */
async function openToolsFolder(
  setting: string | ToolsFolderLocation | undefined,
  { folder, tools, backends, memory, fresh, signal }: ToolsFolderAround,
): Promise<ToolsFolder | undefined> {
  if (setting === undefined) return undefined
  const { path, allow, deny } = typeof setting === 'string' ? { path: setting } : setting
  if (!fresh) resolveOurPackages()
  return loadToolsFolder(resolve(folder, path), {
    ...(allow === undefined ? {} : { allow }),
    ...(deny === undefined ? {} : { deny }),
    ...(memory === undefined ? {} : { memory }),
    reserved: ['demo', ...backends.map(({ name }) => name)],
    taken: tools.map(({ tool }) => `${tool.namespace}:${tool.name}`),
    load: importModule,
    parse: async (file, text) => copyJson((await import('./read-data.ts')).parseYaml(file, text)),
    signal,
  })
}

/** Warnings about refused files and tools, for the start of Gantry. */
export function folderWarnings(folder: ToolsFolder | undefined): string[] {
  return (folder?.refused ?? []).map(refusalText)
}

/** The warning about a refused file or tool. */
export function refusalText({ file, tool, reason, kept }: RefusedTool): string {
  const what = tool === undefined ? `${file} in the folder of tools` : `${tool} of ${file}`
  const before = kept === true ? '; its previous version stays in use' : ''
  return `${what} was not loaded: ${reason}${before}`
}
