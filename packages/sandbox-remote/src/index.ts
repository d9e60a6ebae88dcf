export type { ClientTls } from './client/host-client.ts'
export type { RemoteOptions } from './client/remote.ts'
export { createRemoteRuntime } from './client/remote.ts'
export type { SigningKey } from './protocol/signature.ts'
export type { ServerRecord } from './server/record.ts'
export type { ServerTls } from './server/runtime-server.ts'
export {
  createRuntimeServer,
  type RuntimeServer,
  type RuntimeServerOptions,
  usualPort,
} from './server/runtime-server.ts'
export { openRemoteRuntime, type RemoteRuntimesOptions, type RemoteSettings } from './settings.ts'
