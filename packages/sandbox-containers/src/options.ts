import type { Issue } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { type Check, flag, text, whole } from '@gantry/core/internal/options/option'
import { type OptionsShape, optionsCheck } from '@gantry/core/internal/options/options'
import type { ContainerdOptions } from './drivers/containerd.ts'
import type { DockerOptions } from './drivers/docker.ts'
import { isLoopback } from './engines/docker-client.ts'

/** How a Docker engine is reached, as configuration says it, and what its sandboxes are made of. */
export type DockerSettings = Pick<DockerOptions, 'socket' | 'host' | 'image' | 'processors' | 'pause'>

/** The same for containerd. */
export type ContainerdSettings = Pick<
  ContainerdOptions,
  'socket' | 'namespace' | 'snapshotter' | 'image' | 'processors' | 'pause'
>

/** The same for an OCI runtime of either engine. */
export interface OciSettings extends DockerSettings, ContainerdSettings {
  /** Docker when absent, unless containerd alone is configured. */
  readonly engine?: 'docker' | 'containerd'
  /** The OCI runtime, as the engine names it. */
  readonly runtime?: string
}

export interface GvisorSettings extends OciSettings {
  /** The program `runsc` for containerd; found by its name when absent. */
  readonly runsc?: string
}

/** Runtimes in containers, by their kind; one that is absent is not created. */
export interface ContainerOptions {
  /** Containers on the host's kernel. */
  readonly docker?: DockerSettings
  /** Containers on the host's kernel, without Docker. */
  readonly containerd?: ContainerdSettings
  /** gVisor's kernel; what it does not say is that of its engine. */
  readonly gvisor?: GvisorSettings
  /** A virtual machine for each container; what it does not say is that of its engine. */
  readonly kata?: OciSettings
}

const file = text()
const tls = {
  type: 'object',
  properties: { caFile: file, certFile: file, keyFile: file },
  required: ['caFile', 'certFile', 'keyFile'],
  additionalProperties: false,
}
const socket = {
  type: 'string',
  pattern: '^/',
  maxLength: 107,
  description: 'an absolute path of at most 107 characters',
}
const processors = { type: 'number', exclusiveMinimum: 0, maximum: 1_024, description: 'a number above 0' }
const dockerMembers: OptionsShape<DockerSettings>['members'] = {
  socket,
  host: {
    type: 'object',
    properties: { name: text(255), port: whole(1, 65_535), tls },
    required: ['name', 'port'],
    additionalProperties: false,
  },
  image: text(255),
  processors,
  pause: flag,
}
const name = {
  type: 'string',
  pattern: '^[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*$',
  maxLength: 76,
  description: 'letters and digits, with single . _ or - between them',
}
const containerdMembers: OptionsShape<ContainerdSettings>['members'] = {
  socket,
  namespace: name,
  snapshotter: name,
  image: text(255),
  processors,
  pause: flag,
}
const ociMembers: OptionsShape<OciSettings>['members'] = {
  ...dockerMembers,
  ...containerdMembers,
  engine: { enum: ['docker', 'containerd'] },
  runtime: text(128),
}

/** The checks of `ContainerOptions`, by kind. */
export const containerChecks: { readonly [Kind in keyof Required<ContainerOptions>]: Check } = {
  docker: withAddress(optionsCheck<DockerSettings>({ members: dockerMembers })),
  containerd: optionsCheck<ContainerdSettings>({ members: containerdMembers }),
  gvisor: withAddress(
    optionsCheck<GvisorSettings>({ members: { ...ociMembers, runsc: { ...socket, maxLength: 1_024 } } }),
  ),
  kata: withAddress(optionsCheck<OciSettings>({ members: ociMembers })),
}

/** What no schema says of an address: one of both ways, and none without TLS to another machine. */
function withAddress(check: Check): Check {
  const issues = (value: unknown, path: string): readonly Issue[] => {
    const found = check.issues(value, path)
    return found.length > 0 || !isObject(value) ? found : addressIssues(value, path)
  }
  return { schema: check.schema, fits: (value) => issues(value, '').length === 0, issues }
}

function addressIssues(settings: GvisorSettings, path: string): readonly Issue[] {
  const { socket, host, engine } = settings
  const foreign = (['namespace', 'snapshotter', 'runsc'] as const).filter((member) => settings[member] !== undefined)
  if (engine !== 'containerd' && foreign.length > 0) {
    return foreign.map((member) => ({ path: `${path}/${member}`, message: 'needs "engine": "containerd"' }))
  }
  if (host === undefined) return []
  if (engine === 'containerd') {
    return [{ path: `${path}/host`, message: 'is supported by Docker only; containerd is reached by its socket' }]
  }
  if (socket !== undefined) return [{ path: `${path}/host`, message: 'cannot be given together with socket' }]
  if (host.tls !== undefined || isLoopback(host.name)) return []
  return [{ path: `${path}/host/tls`, message: 'is required for an engine on another machine' }]
}
