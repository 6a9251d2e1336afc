# The formula of a release: .github/pack.py fills in what stands between @ signs.
class CclSql < Formula
  desc "SQL analytics over the traces of distributed LLM training and inference"
  homepage "@HOMEPAGE@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
      url "@ADDRESS@/ccl-sql-@VERSION@-aarch64-apple-darwin.tar.gz"
      sha256 "@SHA256 aarch64-apple-darwin@"
    end
    on_intel do
      url "@ADDRESS@/ccl-sql-@VERSION@-x86_64-apple-darwin.tar.gz"
      sha256 "@SHA256 x86_64-apple-darwin@"
    end
  end

  on_linux do
    on_arm do
      url "@ADDRESS@/ccl-sql-@VERSION@-aarch64-unknown-linux-gnu.tar.gz"
      sha256 "@SHA256 aarch64-unknown-linux-gnu@"
    end
    on_intel do
      url "@ADDRESS@/ccl-sql-@VERSION@-x86_64-unknown-linux-gnu.tar.gz"
      sha256 "@SHA256 x86_64-unknown-linux-gnu@"
    end
  end

  def install
    bin.install "ccl-sql"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/ccl-sql.bash" => "ccl-sql"
    fish_completion.install "completions/ccl-sql.fish"
    zsh_completion.install "completions/_ccl-sql"
  end

  test do
    assert_equal "ccl-sql #{version}", shell_output("#{bin}/ccl-sql -V").strip
    assert_match "coll_call_num", shell_output("#{bin}/ccl-sql list metrics")
  end
end
