import { imageFiles } from '../images/image-store.ts'

/** `kvm` where it was seen to work; QEMU's own emulation otherwise. */
export type Accelerator = 'kvm' | 'tcg'

/** Where things are in the namespaces that QEMU runs in. */
export const insidePaths = { image: '/image', control: '/control' } as const
/** The socket of this process in the folder of one machine. */
export const controlName = 'qmp'
/** Descriptors that QEMU inherits. */
export const descriptors = { memory: 0, state: 1, channel: 3 } as const

export interface MachineShape {
  readonly accelerator: Accelerator
  readonly memoryBytes: number
  readonly processors: number
  /** The filter of system calls of programs. */
  readonly filter: 'base' | 'strict'
  /** The clock of this machine's processor, without which an emulated one measures it and may not come to an end. */
  readonly processorMhz: number
}

/** How a machine starts: from its kernel, with a control socket so that a snapshot can be taken, or from a snapshot. */
export type MachineStart = 'boot' | 'boot for a snapshot' | 'restore'

/**
 * The arguments of QEMU. A machine has its processor, its memory, one disk that it cannot write and one channel; no network,
 * no display, no console, no clock of a device. What a machine is restored with must be what its snapshot was taken with.
 */
export function qemuArguments(shape: MachineShape, start: MachineStart): string[] {
  const { accelerator, memoryBytes, processors } = shape
  const memory = String(memoryBytes)
  const image = (name: string): string => `${insidePaths.image}/${name}`
  const share = start === 'restore' ? 'off' : 'on'
  const backend = `memory-backend-file,id=memory,size=${memory},mem-path=/proc/self/fd/${descriptors.memory},share=${share}`
  const control = `socket,path=${insidePaths.control}/${controlName},id=control`
  return [
    '-machine',
    `microvm,acpi=on,pit=on,pic=on,rtc=on,x-option-roms=off,isa-serial=off${start === 'boot' ? '' : ',memory-backend=memory'}`,
    ...(start === 'boot' ? [] : ['-object', backend]),
    '-accel',
    accelerator === 'kvm' ? 'kvm' : 'tcg,tb-size=64',
    '-cpu',
    accelerator === 'kvm' ? 'host' : 'max',
    '-smp',
    String(Math.max(1, Math.ceil(processors))),
    '-m',
    `size=${memory}B`,
    '-nodefaults',
    '-no-user-config',
    '-display',
    'none',
    '-no-reboot',
    '-sandbox',
    'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny',
    '-kernel',
    image(imageFiles.kernel),
    '-initrd',
    image(imageFiles.initramfs),
    '-append',
    kernelArguments(shape),
    '-drive',
    `id=system,file=${image(imageFiles.disk)},format=raw,if=none,read-only=on,cache=writeback`,
    '-device',
    'virtio-blk-device,drive=system',
    '-device',
    'virtio-serial-device',
    '-chardev',
    `socket,fd=${descriptors.channel},id=channel`,
    '-device',
    'virtserialport,chardev=channel,name=dev.gantry',
    ...(start === 'boot' ? [] : ['-chardev', control, '-mon', 'chardev=control,mode=control']),
    ...(start === 'restore' ? ['-incoming', 'defer'] : []),
  ]
}

function kernelArguments({ filter, processorMhz }: MachineShape): string {
  const clock = `tsc_early_khz=${Math.round(processorMhz * 1_000)}`
  const own = `reboot=t panic=-1 random.trust_cpu=on quiet loglevel=0 ${clock} tsc=reliable rdinit=/init`
  return `${own} -- guest /gantry/filters/${filter}`
}
