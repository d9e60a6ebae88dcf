import { type Check, flag, text } from '@gantry/core/internal/options/option'
import { optionsCheck } from '@gantry/core/internal/options/options'
import type { FirecrackerOptions } from './drivers/firecracker.ts'
import type { QemuOptions } from './drivers/qemu.ts'

/** QEMU as configuration says it. */
export type QemuSettings = Omit<QemuOptions, 'languages' | 'root'>

/** Firecracker as configuration says it. */
export type FirecrackerSettings = Omit<FirecrackerOptions, 'languages' | 'root'>

/** Sandboxes in virtual machines; absent, no such runtime is created. */
export interface MicrovmRuntimesOptions {
  readonly qemu?: QemuSettings
  readonly firecracker?: FirecrackerSettings
}

const path = { type: 'string', pattern: '^/', maxLength: 1_024, description: 'an absolute path' }
const processors = { type: 'number', exclusiveMinimum: 0, maximum: 64, description: 'a number above 0' }
const fewProcessors = { type: 'number', exclusiveMinimum: 0, maximum: 32, description: 'a number above 0, at most 32' }

/** The checks of `MicrovmRuntimesOptions`. */
export const microvmChecks: { readonly qemu: Check; readonly firecracker: Check } = {
  qemu: optionsCheck<QemuSettings>({
    members: {
      program: path,
      image: text(255),
      store: path,
      accelerator: { enum: ['auto', 'kvm', 'tcg'] },
      processors,
      snapshots: flag,
    },
  }),
  firecracker: optionsCheck<FirecrackerSettings>({
    members: {
      program: path,
      jailer: path,
      image: text(255),
      store: path,
      processors: fewProcessors,
      snapshots: flag,
    },
  }),
}
