package sandbox_test

// peers is what came of the same attempts in Codex 0.169 (workspace-write),
// srt 0.0.78 (the workspace may be written, no hosts) and bubblewrap 0.8 (all
// namespaces, the root read-only, the workspace bound), in this order: s for
// stopped, o for open, r for open when started by root. They were measured
// with one program for all of them; what is not here was not tried there.
var peers = map[string]string{
	"fs.write_outside": "sss", "fs.append_outside": "sss", "fs.write_via_symlink": "sss", "fs.create_via_dangling_symlink": "sss",
	"fs.write_via_dir_symlink": "sss", "fs.hardlink_into_root_and_write": "sss", "fs.rename_into_root": "sss", "fs.rename_out_of_root": "sss",
	"fs.write_via_proc_self_root": "sss", "fs.write_via_proc_1_root": "sss", "fs.write_via_victim_root": "sss",
	"fs.truncate_outside": "sss", "fs.unlink_outside": "sss", "fs.chmod_outside": "sss", "fs.chmod_via_readonly_descriptor": "sss",
	"fs.chown_outside": "sss", "fs.utime_outside": "sss", "fs.xattr_outside": "sss", "fs.reopen_descriptor_for_writing": "sss",
	"fs.open_memory_device": "sss", "fs.create_in_program_folder": "sss", "fs.open_by_handle": "sss",
	"fs.read_outside": "ooo", "fs.read_passwords": "rrr",

	"git.write_hook": "sso", "git.append_config": "sso", "git.rename_away": "sso", "git.nested_hook": "ooo", "git.deeply_nested_hook": "ooo",
	"git.moved_nested_hook": "ooo", "git.new_repository": "ooo",

	"persist.shell_start_at_home": "sss", "persist.shell_start_in_root": "oso", "persist.editor_tasks": "oso", "persist.mcp_config": "oso",
	"persist.codex_config": "soo", "persist.claude_settings": "oso", "persist.direnv": "ooo",

	"fd.write_inherited_file": "oso", "fd.create_in_inherited_folder": "oso", "env.secret": "ooo",

	"proc.see_host_process": "sss", "proc.read_environment": "sss", "proc.read_any_environment": "sss", "proc.signal": "sss", "proc.trace": "sss",
	"proc.trace_own_child": "soo", "proc.process_vm_readv": "sss", "proc.enter_namespace": "ssr", "proc.core_pattern": "rrr", "sys.uevent": "sss",

	"net.tcp_connect": "sss", "net.mptcp_connect": "sss", "net.udp_send": "sss", "net.tcp_listen": "soo", "net.unix_connect": "sso",
	"net.unix_connect_via_symlink": "sso", "net.unix_abstract": "sss", "net.vsock": "soo", "net.netlink_route": "soo", "net.netlink_audit": "soo",
	"net.packet": "ssr", "net.raw": "ssr", "net.io_uring": "sso", "abi.i386_socket": "sso",

	"ns.unshare_user": "ooo", "ns.unmount_protected": "sss", "ns.bind_over_protected": "sss", "ns.chroot": "srr",
	"priv.set_user": "sss", "priv.capabilities": "srr", "priv.bpf": "ooo", "priv.perf": "sss", "priv.userfaultfd": "sss", "priv.keyring": "ooo",
	"priv.run_from_memory": "ooo", "priv.core_dump": "ooo",

	"ipc.shared_memory": "sos", "ipc.dev_shm": "sss", "tty.type_into_own": "sss", "limits.raise_processes": "ooo", "end.daemon_survives": "sss",
}
