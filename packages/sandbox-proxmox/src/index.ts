export type { VmidRange } from './containers/address-range.ts'
export { createProxmoxRuntime, type ProxmoxOptions } from './drivers/proxmox-lxc.ts'
export { openProxmoxRuntime, type ProxmoxRuntimesOptions, type ProxmoxSettings } from './settings.ts'
