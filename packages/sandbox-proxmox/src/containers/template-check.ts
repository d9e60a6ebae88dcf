import { isObject, isText } from '@gantry/contract/internal/json'
import { apiError } from '../api/api-error.ts'

/** What of a template's configuration is used. */
export interface TemplateFound {
  /** Digest of its configuration, which changes with it. */
  readonly digest: string
}

const remedy = 'Make the template as docs/runtimes/proxmox-lxc.md says, and convert it with `pct template`.'

/**
 * Refuses a template whose containers would be weaker than promised: privileged, with features, with folders, devices or
 * scripts of the node. A clone copies all of these. Throws RUNTIME_UNAVAILABLE.
 */
export function checkTemplate(vmid: number, config: unknown): TemplateFound {
  const refuse = (what: string): Error => apiError('other', `The container ${vmid} ${what}.`, { remedy })
  if (!isObject(config)) throw refuse('has no configuration')
  if (!isOn(config.template)) throw refuse('is no template')
  if (!isOn(config.unprivileged)) throw refuse('is privileged: root in it would be root of the node')
  if (config.features !== undefined)
    throw refuse(`has features (${String(config.features).slice(0, 100)}), and sandboxes need none`)
  for (const name of Object.keys(config)) {
    if (/^mp\d+$/.test(name)) throw refuse(`has the mount point ${name}, which every sandbox would share or copy`)
    if (/^dev\d+$/.test(name)) throw refuse(`passes the device ${name} of the node through`)
    if (/^net[1-9]\d*$/.test(name)) throw refuse(`has the network interface ${name}; only net0 is replaced`)
    if (name === 'lxc' || name.startsWith('lxc.')) throw refuse('has raw LXC settings, which nothing here can judge')
    if (name === 'hookscript') throw refuse('runs a script on the node at its start')
  }
  const { digest } = config
  return { digest: isText(digest) ? digest : '' }
}

function isOn(value: unknown): boolean {
  return value === 1 || value === '1' || value === true
}
