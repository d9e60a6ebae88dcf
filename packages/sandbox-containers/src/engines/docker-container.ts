import {
  egressTarget,
  labelsOf,
  maskedDevices,
  maskedPaths,
  memoryMounts,
  oomScore,
  readonlyPaths,
  sharedMemoryBytes,
  ulimitsOf,
} from './container-policy.ts'
import { seccompProfiles } from './container-seccomp.ts'
import type { ContainerSpec } from './engine.ts'

const seccomp: { readonly [Name in ContainerSpec['filter']]: string } = {
  base: `seccomp=${JSON.stringify(seccompProfiles.base)}`,
  strict: `seccomp=${JSON.stringify(seccompProfiles.strict)}`,
}

/**
 * The one policy of all containers; nothing here comes from the arguments of a call but numbers. `variables` are those of
 * the image: a name without a value takes one out.
 */
export function dockerContainer(spec: ContainerSpec, variables: readonly string[]): object {
  const { uid, memoryBytes, egressFolder } = spec
  const mounts =
    egressFolder === undefined
      ? []
      : [
          {
            Type: 'bind',
            Source: egressFolder,
            Target: egressTarget,
            ReadOnly: true,
            BindOptions: { Propagation: 'rprivate' },
          },
        ]
  return {
    Image: spec.image,
    Entrypoint: [],
    Cmd: spec.command,
    User: `${uid}:${uid}`,
    Env: variables,
    WorkingDir: '/',
    Hostname: 'sandbox',
    Labels: labelsOf(spec),
    OpenStdin: true,
    // When this process dies, the engine closes the init's stdin, and the init ends the container.
    StdinOnce: true,
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    Tty: false,
    Healthcheck: { Test: ['NONE'] },
    Volumes: {},
    // Without it the OCI runtime starts a program of the engine for each container, only to set up a network without routes.
    NetworkDisabled: true,
    HostConfig: {
      AutoRemove: true,
      Privileged: false,
      Init: false,
      ...(spec.runtime === undefined ? {} : { Runtime: spec.runtime }),
      NetworkMode: 'none',
      PidMode: '',
      IpcMode: 'private',
      UTSMode: '',
      ReadonlyRootfs: true,
      CapAdd: [],
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges:true', seccomp[spec.filter]],
      MaskedPaths: [...maskedPaths, ...maskedDevices],
      ReadonlyPaths: readonlyPaths,
      Devices: [],
      Mounts: mounts,
      Tmpfs: Object.fromEntries(memoryMounts(spec).map(({ path, options }) => [path, options.join(',')])),
      ShmSize: sharedMemoryBytes(spec),
      Memory: memoryBytes,
      MemorySwap: memoryBytes,
      NanoCpus: Math.round(spec.processors * 1e9),
      PidsLimit: spec.pids,
      OomScoreAdj: oomScore,
      Ulimits: Object.entries(ulimitsOf(spec)).map(([Name, value]) => ({ Name, Soft: value, Hard: value })),
      LogConfig: { Type: 'none' },
      RestartPolicy: { Name: 'no' },
    },
  }
}
