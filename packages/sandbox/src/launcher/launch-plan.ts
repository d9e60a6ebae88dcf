import type { SandboxLimit } from '@gantry/contract'

/**
 * Everything the launcher needs to start, watch and clear away one sandbox. The launcher knows no policy: it makes the
 * folders, writes the settings, joins, drops to the uid, executes, watches, kills, reads and removes what is named here.
 */
export interface LaunchPlan {
  /** Executed after everything else is in place; bubblewrap with its arguments, ending in the init inside. */
  readonly argv: readonly [string, ...string[]]
  /** A compiled filter for bubblewrap's `--seccomp 9`; the launcher opens it as descriptor 9. */
  readonly seccompFile?: string
  /** Whom to become before executing; absent when we are not root and stay who we are. */
  readonly uid?: number
  readonly gid?: number
  readonly cgroups: CgroupPlan
  /** By the kernel's names in small letters: `core`, `nofile`, `nproc`, `fsize`, `memlock`, `msgqueue`, `sigpending`. */
  readonly rlimits: { readonly [name: string]: number }
  /** Folders of this sandbox on the host, removed with all they hold at the end. */
  readonly folders: readonly string[]
  /** Removed with all they hold when the owner died: what it had made for all of its sandboxes. */
  readonly orphans?: readonly string[]
  /** How often the programs of the sandbox may register a descriptor with epoll; not counted when absent. */
  readonly epollWatches?: number
}

/** The control groups of one sandbox; empty where none may be made. */
export interface CgroupPlan {
  /** Made in this order, joined by way of their `cgroup.procs`, removed in reverse. */
  readonly folders: readonly string[]
  /** Folders to try to remove last, when nobody else is left in them: those of an owner that died. */
  readonly parents?: readonly string[]
  /** Files to write before joining, `[path, text]`. */
  readonly settings: readonly (readonly [string, string])[]
  /** Writing 1 here kills everything at once; absent before Linux 5.14, where all in `cgroup.procs` are killed. */
  readonly killFile?: string
  /** Figures to read at the end; `key` names a line of a `key value` file, absent for a plain number. */
  readonly figures: { readonly [name: string]: { readonly file: string; readonly key?: string } }
  /** Figures that end the run when they reach a value. */
  readonly watches: readonly {
    readonly limit: SandboxLimit
    readonly file: string
    readonly key?: string
    readonly atLeast: number
  }[]
}
